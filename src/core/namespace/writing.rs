//! A write that begins.

use super::target::Found;
use super::told::notices::Claim;
use crate::machine::DatasetKey;

/// What a rank is about to write.
pub struct Writing<'a> {
    /// What the others are told before.
    pub claim: &'a Claim,
    /// What it has found under the name.
    pub found: &'a Found,
    /// It counts on the content of that.
    pub copies: bool,
    /// The dataset in the cache that is to have a file where there was none.
    pub makes_in: Option<&'a DatasetKey>,
}

impl<'a> Writing<'a> {
    /// Describes a write over what was `found`, whatever content that has.
    pub fn new(claim: &'a Claim, found: &'a Found) -> Self {
        Writing { claim, found, copies: false, makes_in: None }
    }
}
