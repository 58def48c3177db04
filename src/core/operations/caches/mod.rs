//! The caches of a run, asked from outside. `question.rs` has what a node is asked, `on_node.rs`
//! what it does for that.

mod ask;
mod bring;
mod exchange;
mod listing;
mod on_node;
mod question;
mod verify;

pub use bring::BroughtFiles;
pub use exchange::Exchange;
pub use listing::{FilePlace, Listed, Listing, PartPlace};
pub use on_node::answer;
pub use question::{Question, answer_text};
pub use verify::{Caches, Repair, VerifyCaches};
