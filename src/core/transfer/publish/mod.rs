//! How files get to the prefix: staged, noted in a journal, published.
//!
//! | file | job |
//! |---|---|
//! | `stage.rs` | one file: staged beside its target, synced, renamed |
//! | `single.rs` | one file by itself |
//! | `journal.rs` | what the next start must complete or roll back |
//! | `companions.rs` | what is published with it of older ones |
//! | `options.rs` | what the settings say |
//! | `about.rs` | what is said of a dataset as a whole |
//! | `unfinished.rs` | a flush that ended halfway, and does not go on |
//! | `newer.rs` | what a flush of an older dataset must leave as it is |
//! | `kept.rs` | copies of pointer files, by dataset |

pub mod about;
pub(super) mod companions;
pub(super) mod journal;
pub(super) mod kept;
pub(super) mod newer;
pub(super) mod options;
pub(super) mod single;
pub(super) mod stage;
pub(super) mod underway;
pub(super) mod unfinished;
