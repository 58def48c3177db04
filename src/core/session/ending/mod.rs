//! When a run is to end, and its end.
//!
//! | file | job |
//! |---|---|
//! | `need.rs` | whether a checkpoint is due, for programs that ask |
//! | `halt.rs` | conditions under which the run is to end |
//! | `finish.rs` | the end inside MPI_Finalize |
//! | `leaving.rs` | the end without it |

pub(super) mod finish;
pub(super) mod halt;
pub(super) mod leaving;
pub(super) mod need;
