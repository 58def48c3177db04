//! A write that begins.

use super::target::FoundTarget;
use crate::namespace::told::notices::WriteClaim;

pub struct WriteStart<'a> {
    /// What the others are told before.
    pub claim: &'a WriteClaim,
    pub found: &'a FoundTarget,
    /// It counts on the content of what was found.
    pub copies: bool,
}

impl<'a> WriteStart<'a> {
    pub fn new(claim: &'a WriteClaim, found: &'a FoundTarget) -> Self {
        WriteStart { claim, found, copies: false }
    }
}
