//! The caches of a run, from outside: what they hold, whether it is right, and its files.
//!
//! | file | job |
//! |---|---|
//! | `question.rs` | what a node is asked, and its answer |
//! | `exchange.rs` | a folder on the prefix through which files come from nodes and go there |
//! | `verify.rs` | what is damaged, and its repair |
//! | `listing.rs` | files under their names below the prefix, and where they are |
//! | `bring.rs` | files of other nodes, brought here |

mod bring;
mod exchange;
mod listing;
mod question;
mod verify;

use super::reach::{Inquiry, Reach};
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::launch::JobPlaces;

pub use bring::Brought;
pub use exchange::Exchange;
pub use listing::{Listed, Listing, Place};
pub use question::{Question, answer_text};
pub use verify::{Caches, Repair, VerifyCaches};

/// Asks nodes the same question, or each its own.
fn ask_nodes(
    reach: &Reach<'_>,
    places: &JobPlaces,
    nodes: &[String],
    (what, question): (&str, &Question),
) -> Vec<(String, Result<KvTree>)> {
    let here = |node: &str| question.answer(places, node);
    let words = |node: &str| {
        let mut words = ["on-node", "--node", node].map(str::to_owned).to_vec();
        words.extend(question.words());
        words
    };
    let inquiry = Inquiry { what, here: &here, words: &words, read: &question::read_answer };
    reach.ask(places, nodes, &inquiry)
}
