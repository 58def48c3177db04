//! Whether all ranks of the launch are there, and where ranks meet without MPI.
//!
//! | file | job |
//! |---|---|
//! | `check.rs` | whether we are in all ranks of this launch |
//! | `check_files.rs` | the files by which ranks tell each other of a launch |
//! | `verdict.rs` | how a rank waits for the verdict of that check |
//! | `census.rs` | which ranks are ready, and where the missing ones are |
//! | `nonce.rs` | what distinguishes a launch from every other one |
//! | `meeting.rs` | ranks that meet without MPI when they exit |

pub(crate) mod census;
pub(crate) mod check;
pub(crate) mod check_files;
pub(crate) mod meeting;
pub(crate) mod nonce;
pub(crate) mod verdict;
