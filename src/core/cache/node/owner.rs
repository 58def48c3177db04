//! Whose caches count: those made for one prefix, which an identity tells, not its path alone. A
//! directory that was deleted and made anew is another prefix.

use std::path::Path;

use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, FlushState, PrefixIdentity, PrefixIndex, Record, RunRecord};

/// VERSION of a `launch.scr`, and the key that has the identity.
const PLAIN: (u64, &str) = (1, "IDENTITY");
const WITH_PARTS: (u64, &str) = (2, "RUN");

/// The prefix whose caches count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Owner {
    /// Nothing tells which prefix it is: all datasets of its path count.
    #[default]
    Anybody,
    /// The one with this identity.
    Prefix(PrefixIdentity),
    /// A prefix that was made anew, and has had no launch yet.
    Nobody,
}

impl Owner {
    pub(crate) fn of_state_dir(state_dir: &Path) -> Result<Owner> {
        match PrefixIdentity::read(&state_dir.join(PrefixIdentity::NAME)) {
            Ok(Some(identity)) => return Ok(Owner::Prefix(identity)),
            Ok(None) | Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        // Records of a run: the identity alone was lost, or they are of a version without it.
        let records = [PrefixIndex::NAME, FlushState::NAME, RunRecord::NAME];
        let is_known = records.iter().any(|name| state_dir.join(name).exists());
        Ok(if is_known { Owner::Anybody } else { Owner::Nobody })
    }

    pub(crate) fn identity(&self) -> Option<&PrefixIdentity> {
        match self {
            Owner::Prefix(identity) => Some(identity),
            Owner::Anybody | Owner::Nobody => None,
        }
    }

    /// Tells whether the record was made for this prefix. One without identity is of an older
    /// version, of which only the path counts.
    pub fn owns(&self, record: &DatasetRecord) -> bool {
        match (self, &record.prefix) {
            (Owner::Anybody, _) | (_, None) => true,
            (Owner::Prefix(own), Some(theirs)) => own == theirs,
            (Owner::Nobody, Some(_)) => false,
        }
    }
}

pub(super) fn is_made_for(launch: &Path, prefix: &Path) -> bool {
    read_identity(launch).is_some_and(|identity| is_of_path(&identity, prefix))
}

/// Makes the content of `launch.scr`. A version that knows no parts would take them for lost files:
/// where records have `parts` it finds no identity, and leaves the cache alone as another run's.
pub(crate) fn launch_tree(identity: &str, parts: bool) -> KvTree {
    let (version, key) = if parts { WITH_PARTS } else { PLAIN };
    let mut tree = KvTree::new();
    tree.set_value("VERSION", version);
    tree.set_value(key, identity);
    tree
}

/// Returns what the content of `launch.scr` says of the launches that share its cache; `None` if a
/// newer version has written it.
pub(crate) fn identity_in(launch: &KvTree) -> Option<&str> {
    match launch.get_u64("VERSION") {
        Some(version) if version == WITH_PARTS.0 => launch.get_value(WITH_PARTS.1),
        Some(version) if version > WITH_PARTS.0 => None,
        _ => launch.get_value(PLAIN.1),
    }
}

pub(super) fn read_identity(launch: &Path) -> Option<String> {
    identity_in(&KvTree::read_file(launch).ok()??).map(str::to_owned)
}

/// Tells whether the content of `launch.scr` says that records have parts.
pub(crate) fn says_parts(launch: &KvTree) -> bool {
    launch.get_u64("VERSION") == Some(WITH_PARTS.0)
}

/// Notes in the file `launch`, durably, that records have parts from now on.
pub(crate) fn note_parts(launch: &Path) -> Result<()> {
    let there = match KvTree::read_file(launch) {
        // No version trusts it.
        Err(Error::Corrupt { .. }) => None,
        read => read?,
    };
    match there.as_ref().filter(|tree| !says_parts(tree)).and_then(identity_in) {
        Some(identity) => launch_tree(identity, true).write_file(launch),
        None => Ok(()),
    }
}

/// Tells whether an identity, `<prefix> | ...`, is of the prefix of this path.
pub(super) fn is_of_path(identity: &str, prefix: &Path) -> bool {
    let rest = identity.strip_prefix(&*prefix.to_string_lossy());
    rest.is_some_and(|rest| rest.starts_with(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(prefix: Option<&PrefixIdentity>) -> DatasetRecord {
        DatasetRecord { prefix: prefix.cloned(), ..DatasetRecord::default() }
    }

    #[test]
    fn a_record_belongs_to_the_prefix_that_it_names() {
        let (own, other) = (PrefixIdentity::random(), PrefixIdentity::random());
        let all = [record(None), record(Some(&own)), record(Some(&other))];
        let owns = |owner: &Owner| all.each_ref().map(|one| owner.owns(one));
        assert_eq!(owns(&Owner::Prefix(own.clone())), [true, true, false]);
        assert_eq!(owns(&Owner::Nobody), [true, false, false]);
        assert_eq!(owns(&Owner::Anybody), [true; 3]);
        let is_of = |path: &str| is_of_path("/a | b | 4 | x=y; z", Path::new(path));
        assert_eq!(["/a | b", "/a", "/a | b | 4", "/"].map(is_of), [true, true, true, false]);
    }

    #[test]
    fn a_prefix_is_made_anew_if_nothing_of_a_run_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let of = || Owner::of_state_dir(dir.path()).unwrap();
        assert_eq!(of(), Owner::Nobody);
        std::fs::write(dir.path().join(FlushState::NAME), b"").unwrap();
        assert_eq!(of(), Owner::Anybody);
        let own = PrefixIdentity::random();
        own.write(&dir.path().join(PrefixIdentity::NAME)).unwrap();
        assert_eq!(of(), Owner::Prefix(own));
        std::fs::write(dir.path().join(PrefixIdentity::NAME), b"damaged").unwrap();
        assert_eq!(of(), Owner::Anybody);
    }
}
