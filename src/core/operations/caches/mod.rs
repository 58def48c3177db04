//! The caches of a run, from outside: what they hold, whether it is right, and its files.
//!
//! | file | job |
//! |---|---|
//! | `question.rs` | what a node is asked, and its answer |
//! | `ask.rs`, `on_node.rs` | how it is asked; what a process there does |
//! | `exchange.rs` | a folder on the prefix through which files come from nodes and go there |
//! | `verify.rs` | what is damaged, and its repair |
//! | `listing.rs` | files under their names below the prefix, and where they are |
//! | `bring.rs` | files of other nodes, brought here |

mod ask;
mod bring;
mod exchange;
mod listing;
mod on_node;
mod question;
mod verify;

pub use bring::Brought;
pub use exchange::Exchange;
pub use listing::{Listed, Listing, Place};
pub use on_node::answer;
pub use question::{Question, answer_text};
pub use verify::{Caches, Repair, VerifyCaches};
