//! Files that are open.

mod checksums;
mod closing;
pub(super) mod lazy;
mod lent;
pub(super) mod others;
mod parted;
pub(super) mod shadow;
mod waking;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::handles::Loan;
use crate::launch::site::Site;
use crate::session::{
    contents::Contents, node::Node, rank::Rank, stores::Stores, unsealed::Unsealed,
};

pub struct Handles {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) stores: Arc<Stores>,
    pub(super) contents: Arc<Contents>,
    pub(super) unsealed: Arc<Unsealed>,
    pub(super) lent: Mutex<Vec<Loan>>,
    pub(super) copies: AtomicU64,
}

impl Handles {
    /// Returns a number for one more private copy, which no other rank has.
    pub(crate) fn copy_number(&self) -> String {
        let made = self.copies.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{}.{made}", self.site.rank)
    }
}

#[cfg(test)]
mod tests {
    use crate::session::alone::Alone;

    #[test]
    fn a_file_is_open_until_the_child_that_it_was_lent_to_is_gone() {
        let one = Alone::new();
        let handles = &one.session.handles;
        let token = one.write("ck/1/file", "content");
        // No process has this number.
        handles.lend(&mut handles.node.state(), token, i32::MAX);
        handles.closed(token);
        assert_eq!(handles.node.state().own.tokens.count("ck/1/file"), 1);
        assert_eq!(handles.end_lent().own.tokens.count("ck/1/file"), 0);
    }
}
