//! Before the first collective, and the collective start.
//!
//! | file | job |
//! |---|---|
//! | `prepare.rs` | settings, directories, launch check |
//! | `check.rs` | whether we are in all ranks of this launch |
//! | `check_files.rs` | the files by which ranks tell each other of a launch |
//! | `verdict.rs` | how a rank waits for the verdict of that check |
//! | `census.rs` | which ranks are ready, and where the missing ones are |
//! | `required.rs` | SCR_RESTART_REQUIRED where the start fails |
//! | `aliases.rs` | directories of the patterns that are symbolic links |
//! | `start.rs` | the collective part of the start |
//! | `ineffective.rs` | settings that do nothing for want of another one |

pub(super) mod aliases;
pub(super) mod census;
pub(super) mod check;
pub(super) mod check_files;
pub(super) mod ineffective;
pub(super) mod prepare;
pub(super) mod required;
pub(super) mod start;
pub(super) mod verdict;
