//! What ranks tell one another about names.
//!
//! | file | job |
//! |---|---|
//! | `notices.rs`, `neighbours.rs` | what the ranks of a node tell, and the log that has it |
//! | `by_others.rs` | names that other ranks have told of |
//! | `turns.rs` | one step of theirs at a time |
//! | `far_message.rs`, `far_news.rs` | what ranks of other nodes are told |
//! | `joined.rs` | files that several ranks write before they get a name of ours |
//! | `move_notes.rs` | what a restart is told of renamed directories |

pub(super) mod by_others;
pub(super) mod far_message;
pub(super) mod far_news;
pub(super) mod joined;
pub(super) mod move_notes;
pub(super) mod neighbours;
pub(super) mod notices;
pub(super) mod outdated;
pub(super) mod turns;
