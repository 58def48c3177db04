//! What a job that died has left in its nodes' caches (manual 1.1, section 11.10): each node copies
//! it to a folder on the prefix ([`copy_node`]), then one process rebuilds and publishes it
//! ([`publish_copies`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cache::disk::names_in;
use crate::cache::{Ctx, FilemapFile, Layout, Sharing, all_records, other_prefix};
use crate::comm::solo::Solo;
use crate::error::{Error, Result};
use crate::files::{create_dirs, remove_tree};
use crate::launch::job::JobPlaces;
use crate::operations::prefix::{alone_on_node, alone_on_prefix, state_dir};
use crate::params::{Settings, keys};
use crate::records::DatasetRecord;
use crate::system;
use crate::transfer::{
    OnlyRebuild, Options, OtherSize, Which, copy_remains, gather_found, list_prefix, look_below,
    publish_remains, recover_journal, removals, roll_back, stores_of_remains,
};

/// What a person can do about what was made for another prefix.
pub(crate) const ADVICE: &str = "SCR_CACHE_ADOPT=1 takes it all the same";
const FOLDER: &str = "scavenge";
/// Not the folder of the copies: what `scr copy` has brought may be all that is left.
const FOUND: &str = "rebuild";

/// Copies what this node's cache has and the prefix has not (dataset `id` alone, if given). Returns
/// the number of datasets; `None` if the node has no cache of the job.
pub fn copy_node(places: &JobPlaces, node: &str, id: Option<u64>) -> Result<Option<usize>> {
    alone_on_node(places, || {
        let listed = list_prefix(&places.prefix)?;
        let is_there = |id: u64| listed.iter().any(|one| one.restorable && one.id == id);
        let refused = |id: u64| listed.iter().any(|one| one.refused && one.id == id);
        let newer = newer_than_removed(places)?;
        let newest = |one: u64| id.is_none() && !refused(one) && !newer.contains(&one);
        let wanted = |one: u64| (newest(one) || id == Some(one)) && !is_there(one);
        copy_remains(&places.layout, &folder(&places.prefix), node, &wanted).map(Some)
    })
}

/// What a start has left out, since somebody had removed older checkpoints of the series from the
/// prefix.
fn newer_than_removed(places: &JobPlaces) -> Result<BTreeSet<u64>> {
    if places.layout.owner.identity().is_none() {
        return Ok(BTreeSet::new()); // whatever is there is to be taken
    }
    let removed = removals(&places.prefix)?;
    let is_newer = |one: &DatasetRecord| {
        removed
            .iter()
            .any(|(series, turn)| *series == one.key.series && turn.leaves(one.dataset_id))
    };
    let records = all_records(&places.layout.control_dir).map(|(_, record)| record);
    Ok(records.filter(is_newer).map(|record| record.dataset_id).collect())
}

pub fn clear_copies(prefix: &Path) -> Result<()> {
    remove_tree(&folder(prefix))
}

/// Rebuilds and publishes what the nodes have copied; the copies are gone afterwards, unless it
/// failed. Returns `None` if no node had anything of the job.
pub fn publish_copies(
    places: &JobPlaces,
    settings: &Settings,
    which: Which,
) -> Result<Option<OtherSize>> {
    match state_dir(&places.prefix).is_dir() {
        true => alone_on_prefix(&places.prefix, || {
            publish(places, settings, &folder(&places.prefix), which)
        }),
        false => Ok(None),
    }
}

/// Rebuilds and publishes what is found below `dirs`, which stay as they are. Adds to `unknown` why
/// datasets there are left out.
pub fn publish_found(
    places: &JobPlaces,
    settings: &Settings,
    dirs: &[PathBuf],
    which: Which,
    unknown: &mut Vec<String>,
) -> Result<Option<OtherSize>> {
    let found = look_below(dirs, &places.prefix)?;
    let state = state_dir(&places.prefix);
    create_dirs(&state, 0o755)?;
    alone_on_prefix(&places.prefix, || {
        let folder = state.join(FOUND);
        remove_tree(&folder)?;
        let done = gather_found(found, &folder, &places.prefix).and_then(|gathered| {
            unknown.extend(gathered.unknown);
            publish(places, settings, &folder, which)
        });
        // Links and copies: what they are of is where it was.
        remove_tree(&folder)?;
        done
    })
}

fn publish(
    places: &JobPlaces,
    settings: &Settings,
    folder: &Path,
    which: Which,
) -> Result<Option<OtherSize>> {
    let prefix = &places.prefix;
    if !settings.get(keys::CACHE_ADOPT) {
        for name in names_in(folder)? {
            if let Some(strange) = other_prefix(&folder.join(&name).join("control"), prefix) {
                return Err(Error::Refused(format!(
                    "{strange}, not for {}; {ADVICE}",
                    prefix.display()
                )));
            }
        }
    }
    let mut layout = places.layout.clone();
    for name in stores_of_remains(folder) {
        layout.add_store(Path::new("/"), &name, &places.address, true);
    }
    let alone = Solo::new();
    let none = Layout {
        control_dir: folder.join("none"),
        stores: Vec::new(),
        owner: places.layout.owner.clone(),
    };
    let piece_bytes = usize::try_from(settings.get(keys::MPI_BUF_SIZE)).unwrap_or(usize::MAX);
    let ctx = Ctx {
        world: &alone,
        node: &alone,
        node_ranks: &[0],
        leaders: Some(&alone),
        host: &system::hostname(),
        layout: &layout,
        sharing: &Sharing::observe(&alone, 0, &none, 0, || Ok(()))?.0,
        filemap: &FilemapFile::new(&none, 0, 0),
        prefix,
        protection: &OnlyRebuild { piece_bytes },
        transfer: Options::new(settings),
    };
    // What a flush that died with the job had on its way is published whole, or not at all.
    for id in recover_journal(&ctx)?.unfinished {
        roll_back(&ctx, id)?;
    }
    let done = publish_remains(&ctx, folder, which, &|| {})?;
    remove_tree(folder)?;
    Ok(done)
}

fn folder(prefix: &Path) -> PathBuf {
    state_dir(prefix).join(FOLDER)
}
