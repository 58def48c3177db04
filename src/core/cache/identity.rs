//! Which launch a cache belongs to.

use super::Ctx;
use crate::error::Result;

/// Notes that everything of value is on the prefix, so that a launch with another identity may take
/// the directories. Each node's leader writes; others return. Local.
pub fn finish(ctx: &Ctx, identity: &str) -> Result<()> {
    todo!()
}
