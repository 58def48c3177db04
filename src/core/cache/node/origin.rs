//! For which prefix the cache of a node was made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::address::{of_other_jobs, of_others};
use super::layout::Layout;
use super::names::LAUNCH;
use super::owner::{Owner, is_of_path, read_identity};
use super::store::all_records;
use crate::records::{PrefixIdentity, RecordedState};

pub(crate) fn strange_ids(layout: &Layout) -> BTreeSet<u64> {
    let strange = all_records(&layout.control_dir).filter(|(_, one)| !layout.owner.owns(one));
    strange.map(|(_, record)| record.dataset_id).collect()
}

/// Returns the newest sealed dataset of a control directory that names a prefix: its id, and the
/// prefix.
pub fn newest_owner(control_dir: &Path) -> Option<(u64, PrefixIdentity)> {
    let sealed = all_records(control_dir)
        .map(|(_, record)| record)
        .filter(|record| record.state == RecordedState::Prepared);
    sealed.filter_map(|one| Some((one.dataset_id, one.prefix?))).max_by_key(|(id, _)| *id)
}

/// Says in words for which prefix this node's cache was made, if that has another path than
/// `prefix`.
pub fn other_prefix(control_dir: &Path, prefix: &Path) -> Option<String> {
    let identity = read_identity(&control_dir.join(LAUNCH))?;
    let (theirs, _) = identity.split_once(" | ")?;
    (!is_of_path(&identity, prefix)).then(|| format!("its cache was made for {theirs}"))
}

/// Returns the path that the prefix with this directory `.scr` had before, if this node has a cache
/// that was made for it there and none that was made for it here.
pub fn former_path(control_dir: &Path, state_dir: &Path) -> Option<String> {
    if newest_owner(control_dir).is_some() {
        return None;
    }
    let cached = |dir: PathBuf| {
        let (_, owner) = newest_owner(&dir)?;
        let identity = read_identity(&dir.join(LAUNCH))?;
        Some((Owner::Prefix(owner), identity.split_once(" | ")?.0.to_owned()))
    };
    let others = of_others(control_dir).into_iter().chain(of_other_jobs(control_dir));
    let cached: Vec<_> = others.filter_map(cached).collect();
    let of = |state_dir: &Path| Owner::of_state_dir(state_dir).unwrap_or_default();
    if cached.is_empty() {
        return None; // the usual case asks nothing of the PFS
    }
    let own = of(state_dir);
    let folder = state_dir.file_name()?;
    // If this prefix is a copy, the one that it was made of is still there.
    let is_gone = |path: &str| of(&Path::new(path).join(folder)) != own;
    cached.into_iter().find(|(owner, path)| *owner == own && is_gone(path)).map(|(_, path)| path)
}
