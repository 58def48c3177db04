//! What one rank knows of the run, and what follows from that alone.
//!
//! | file | job |
//! |---|---|
//! | `file.rs`, `dataset.rs`, `series.rs` | this rank's own part |
//! | `shared.rs` | what is equal on all ranks |
//! | `agreement.rs` | the account of sync points |
//! | `facts.rs` | all of it, with what is asked of it most |
//! | `target.rs` | which dataset a write belongs to |
//! | `sets.rs` | whether a dataset has all its files |
//! | `newer.rs` | which content of a name is the newest |
//! | `ids.rs` | ids of datasets that have left |

mod agreement;
mod dataset;
mod facts;
mod file;
mod ids;
mod newer;
mod series;
mod sets;
mod shared;
mod target;
#[cfg(test)]
pub mod testing;

pub use agreement::{OWN, WORDS, stride};
pub use dataset::{Explicit, LocalDataset, Phase, Status};
pub use facts::RunFacts;
pub use file::{Deleted, LocalFile, NameFacts, OnPfs};
pub use series::LocalSeries;
pub use shared::{DatasetState, FAILURES_MAX, Routing, SharedDataset, SharedSeries};
