//! Caches as commands see them: what a run has left, and whether it is whole.
//!
//! | file | job |
//! |---|---|
//! | `remains.rs` | what a run has left, brought back by one process |
//! | `flat.rs` | a dataset in one directory, as version 1.1 had it |
//! | `health.rs`, `judged.rs` | what is damaged, and whether that can be repaired |
//! | `mend.rs` | damaged files of a node, replaced by rebuilt ones |
//! | `redundancy_files.rs` | redundancy files by their names, for who has no records |
//! | `found.rs`, `traces.rs` | directories of nodes as a person has copied them |

pub(super) mod flat;
pub(super) mod found;
pub(super) mod health;
pub(super) mod judged;
pub(super) mod mend;
mod redundancy_files;
pub(super) mod remains;
mod traces;
