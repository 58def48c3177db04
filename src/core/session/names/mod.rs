//! Calls that name a file: open, rename, unlink, link, and look-ups.

pub(super) mod by_child;
pub(super) mod called;
pub(super) mod changing;
pub(super) mod directories;
mod evacuation;
pub(super) mod links;
mod lookup;
pub(super) mod moving;
pub(super) mod opening;
mod parted;
pub(super) mod restless;
pub(super) mod temporary;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::launch::site::Site;
use crate::session::{
    contents::Contents, handles::Handles, node::Node, rank::Rank, report::Reporter, stores::Stores,
    unsealed::Unsealed, updates::Updates,
};

pub struct Names {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) report: Arc<Reporter>,
    pub(super) stores: Arc<Stores>,
    pub(super) updates: Arc<Updates>,
    pub(super) contents: Arc<Contents>,
    pub(super) unsealed: Arc<Unsealed>,
    pub(super) handles: Arc<Handles>,
    /// Files that no pattern matches and that ranks write together, until they are renamed.
    pub(super) together: Mutex<BTreeSet<String>>,
}

#[cfg(test)]
mod tests {
    use crate::namespace::Answer;
    use crate::session::alone::Alone;

    #[test]
    fn a_cached_file_is_found_renamed_and_gone_as_on_the_prefix() {
        let one = Alone::new();
        let names = &one.session.names;
        let [old, new] = ["ck/1/file", "ck/2/file"].map(|name| one.prefix().join(name));
        one.session.handles.closed(one.write("ck/1/file", "content"));
        assert!(!old.exists() && matches!(one.find("ck/1/file"), Answer::Redirect { .. }));
        std::fs::create_dir(new.parent().unwrap()).unwrap();
        assert_eq!(names.rename(&old, &new), Answer::Done);
        assert_eq!(one.find("ck/1/file"), Answer::PASS);
        assert_eq!(names.unlink(&new), Answer::Done);
        assert_eq!(one.find("ck/2/file"), Answer::PASS);
    }
}
