//! Where the content of a name lies (in the cache, on the prefix, in a private file), and the steps
//! that move it.

pub(super) mod co_writers;
pub(super) mod intake;
mod parted;
pub(super) mod placing;
mod private;
mod steps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use crate::launch::site::Site;
use crate::namespace::Doomed;
use crate::patterns::Template;
use crate::session::{node::Node, rank::Rank, stores::Stores, updates::Updates};

#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// Names that the PFS still has.
    pub(super) doomed: BTreeMap<String, Doomed>,
    /// Series and id of checkpoints of which it is noted that the program removes them itself.
    pub(super) marked: BTreeSet<(usize, String)>,
    /// Of those, what was in the cache alone.
    pub(super) cached: VecDeque<(usize, String)>,
}

pub(crate) struct Contents {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) stores: Arc<Stores>,
    pub(super) updates: Arc<Updates>,
    /// How the program names what it renames later, by series.
    pub(super) templates: Mutex<Vec<(usize, Template)>>,
    pub(super) removals: Mutex<Removals>,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::machine::Deletion;
    use crate::namespace::Place;
    use crate::session::alone::Alone;

    /// A deletion that became real later removed what another rank had moved there meanwhile.
    #[test]
    fn a_deletion_that_was_put_off_leaves_a_newer_file_of_that_name_alone() {
        let one = Alone::new();
        let (name, contents) = ("ck/1/file", &one.session.contents);
        let path = one.prefix().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for newer in [false, true] {
            fs::write(&path, "old").unwrap();
            let mut state = contents.node.state();
            contents.delete(&mut state, name, &Place::Prefix, Deletion::Deferred).unwrap();
            assert!(path.exists());
            if newer {
                fs::write(path.with_extension("new"), "of another rank").unwrap();
                fs::rename(path.with_extension("new"), &path).unwrap();
            }
            assert_eq!(contents.remove_deleted(&mut state, name).unwrap(), !newer);
            assert_eq!(path.exists(), newer);
        }
    }
}
