//! What one rank knows of the run, and what follows from that alone.
//!
//! | file | job |
//! |---|---|
//! | `file.rs`, `dataset.rs`, `series.rs` | this rank's own part |
//! | `shared.rs` | what is equal on all ranks |
//! | `agreement.rs` | the account of sync points |
//! | `ledger.rs` | all of it, with what is asked of it most |
//! | `target.rs` | which dataset a write belongs to |
//! | `sets.rs` | whether a dataset has all its files |
//! | `newer.rs` | which content of a name is the newest |
//! | `ids.rs` | ids of datasets that have left |

pub mod agreement;
pub mod dataset;
pub mod file;
pub mod ids;
pub mod ledger;
pub mod newer;
pub mod series;
pub mod sets;
pub mod shared;
pub mod target;
