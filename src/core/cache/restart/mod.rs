//! What a start makes of the caches: which datasets count, who gets what, what is rebuilt.

mod alike;
pub(super) mod claims;
pub(super) mod decide;
mod distribute;
pub(super) mod identity;
pub(super) mod on_prefix;
pub(super) mod protect_anew;
pub(crate) mod rebuild;
pub(super) mod recover;
pub(super) mod replicate;
pub(super) mod survey;
