//! Parts of one dataset, brought together from the nodes to be rebuilt; what was damaged goes back
//! to its node.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::other_size::{LAUNCH, OnlyRebuild, copy, node_folder, place_of, stores_of_remains};
use crate::cache::disk::{files_below, make_own_dir, names_in};
use crate::cache::layout::store_of;
use crate::cache::names::OWN_FOLDER;
use crate::cache::{
    Layout, Mended, Owner, PartsWanted, Remains, Store, identity_in, is_filemap_name, mend_node,
    parts_of, read_records, redundancy_files_of, size_in, write_records,
};
use crate::error::{Error, Result};
use crate::files::{remove_tree, size_at, sync_dir};
use crate::kvtree::KvTree;
use crate::progress::{self, Total};
use crate::system::Lanes;

const REBUILT: &str = "rebuilt.scrinfo";

/// Copies this node's records, and what it has of `wanted`, to `folder`.
pub fn copy_parts(layout: &Layout, folder: &Path, name: &str, wanted: PartsWanted) -> Result<()> {
    let PartsWanted { id, ranks } = wanted;
    let node = node_folder(folder, name);
    remove_tree(&node)?;
    let control = node.join("control");
    make_own_dir(&control)?;
    let is_record = |name: &String| is_filemap_name(name) || name == LAUNCH;
    for name in names_in(&layout.control_dir)?.iter().filter(|name| is_record(name)) {
        copy(&layout.control_dir.join(name), &control.join(name))?;
    }
    let mut files: BTreeSet<(PathBuf, PathBuf)> = BTreeSet::new();
    for ((rank, record), dir) in parts_of(layout, id)? {
        if !ranks.contains(&rank) {
            continue;
        }
        let to = place_of(folder, &node, store_of(&record), false);
        let to = to.join(format!("scr.dataset.{id}"));
        let own = record.files.iter().filter(|file| !file.on_prefix).cloned();
        for file in own.chain(redundancy_files_of(&record)) {
            files.insert((dir.join(file.place()), to.join(file.place())));
        }
        // Catalog and markers tell of the seal; the rest of that folder belongs to ranks.
        for mark in files_below(&dir.join(OWN_FOLDER))? {
            let is_mark = mark.to_str().is_some_and(|name| {
                name == "catalog.scr" || name.chars().all(|letter| letter.is_ascii_uppercase())
            });
            if is_mark {
                let name = Path::new(OWN_FOLDER).join(mark);
                files.insert((dir.join(&name), to.join(&name)));
            }
        }
    }
    let size = |(from, _): &(PathBuf, PathBuf)| size_at(from);
    let bytes = files.iter().map(size).fold(0, u64::saturating_add);
    let _step = progress::step("copying", Total::Bytes(Some(bytes)));
    // What damage has put in the place of a file is as good as nothing.
    let mut there = files.iter().filter(|(from, _)| from.is_file());
    there.try_for_each(|(from, to)| copy(from, to))?;
    sync_dir(&node)
}

/// Rebuilds what is damaged of `wanted`, where [`copy_parts`] has put it. The inner error says why
/// that is not possible.
pub fn rebuild_parts(
    folder: &Path,
    wanted: PartsWanted,
    piece_bytes: usize,
    lanes: usize,
) -> Result<std::result::Result<(), String>> {
    let stores = stores_of_remains(folder);
    let layout = |node: &Path| {
        let store = |name: &String| Store {
            cache_dir: place_of(folder, node, name, false),
            name: name.clone(),
            usable: true,
            is_shared: false,
        };
        let stores = stores.iter().map(store).collect();
        Layout { control_dir: node.join("control"), stores, owner: Owner::default() }
    };
    let mut names = names_in(folder)?;
    names.retain(|name| name.starts_with("node."));
    let identity = |name: &String| {
        let tree = KvTree::read_file(folder.join(name).join("control").join(LAUNCH)).ok()??;
        Some(identity_in(&tree)?.to_owned())
    };
    let Some(identity) = names.iter().find_map(identity) else {
        return Ok(Err("nothing tells which run it is of".into()));
    };
    let remains = Remains {
        nodes: names.into_iter().map(|name| (name.clone(), layout(&folder.join(name)))).collect(),
        spare: layout(&folder.join("none")),
        identity: &identity,
        ranks: size_in(&identity).ok_or_else(|| Error::Refused(identity.clone()))?,
        protection: &OnlyRebuild { piece_bytes },
        lanes: Lanes::of(lanes),
        only: Some(wanted),
    };
    let _step = progress::step("checking and rebuilding", Total::Bytes(None));
    let brought = remains.rebuild()?;
    let PartsWanted { id, ranks } = wanted;
    if let Some(one) = brought.whole.into_iter().find(|one| one.id == id) {
        let held: Vec<_> = ranks.iter().copied().zip(one.records).collect();
        write_records(&folder.join(REBUILT), &held)?;
        return Ok(Ok(()));
    }
    let why = brought.withheld.into_iter().find(|one| one.id == id).map(|one| one.reason);
    Ok(Err(why.unwrap_or_else(|| "the records have nothing of it any more".into())))
}

/// Puts what was rebuilt in `folder` in the place of this node's damaged files of dataset `id`. The
/// caller keeps launches off.
pub fn put_parts_back(layout: &Layout, folder: &Path, name: &str, id: u64) -> Result<Mended> {
    let node = node_folder(folder, name);
    let place =
        |store: &str| place_of(folder, &node, store, false).join(format!("scr.dataset.{id}"));
    let rebuilt = read_records(&folder.join(REBUILT))?;
    mend_node(layout, id, (&rebuilt, &place))
}
