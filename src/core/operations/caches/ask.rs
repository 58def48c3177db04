//! Nodes are asked, each by a process there.

use super::on_node::answer;
use super::question::{Question, read_answer};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::launch::JobPlaces;
use crate::operations::run::reach::{Inquiry, Reach};

pub(super) fn ask_nodes(
    reach: &Reach<'_>,
    places: &JobPlaces,
    nodes: &[String],
    what: &str,
    question: &Question,
) -> Vec<(String, Result<KvTree>)> {
    let here = |node: &str| answer(question, places, node);
    let words = |node: &str| {
        let mut words = ["on-node", "--node", node].map(str::to_owned).to_vec();
        words.extend(question.words());
        words
    };
    let inquiry = Inquiry { what, here: &here, words: &words, read: &read_answer };
    reach.ask(places, nodes, &inquiry)
}

/// Fails for an answer of another version.
pub(super) fn parsed<T>(answer: Result<KvTree>, read: fn(&KvTree) -> Option<T>) -> Result<T> {
    let unknown = || Error::Unreadable("an answer of another version of SCR".into());
    read(&answer?).ok_or_else(unknown)
}
