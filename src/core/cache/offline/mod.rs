//! Caches as commands see them: what a run has left, and whether it is whole.

pub(super) mod flat;
pub(super) mod found;
pub(super) mod health;
pub(super) mod judged;
pub(super) mod mend;
mod redundancy_files;
pub(super) mod remains;
mod traces;
