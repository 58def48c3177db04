//! A write that begins.

use super::target::FoundTarget;
use crate::machine::DatasetKey;
use crate::namespace::told::notices::WriteClaim;

/// What a rank is about to write.
pub struct WriteStart<'a> {
    /// What the others are told before.
    pub claim: &'a WriteClaim,
    /// What it has found under the name.
    pub found: &'a FoundTarget,
    /// It counts on the content of that.
    pub copies: bool,
    /// The dataset in the cache that is to have a file where there was none.
    pub makes_in: Option<&'a DatasetKey>,
}

impl<'a> WriteStart<'a> {
    /// Describes a write over what was `found`, whatever content that has.
    pub fn new(claim: &'a WriteClaim, found: &'a FoundTarget) -> Self {
        WriteStart { claim, found, copies: false, makes_in: None }
    }
}
