//! A write that begins.

use super::target::FoundTarget;
use crate::machine::DatasetKey;
use crate::namespace::told::notices::WriteClaim;

pub struct WriteStart<'a> {
    /// What the others are told before.
    pub claim: &'a WriteClaim,
    pub found: &'a FoundTarget,
    /// It counts on the content of what was found.
    pub copies: bool,
    /// The dataset in the cache that is to have a file where there was none.
    pub makes_in: Option<&'a DatasetKey>,
}

impl<'a> WriteStart<'a> {
    pub fn new(claim: &'a WriteClaim, found: &'a FoundTarget) -> Self {
        WriteStart { claim, found, copies: false, makes_in: None }
    }
}
