//! At a restart, every record on the node goes to a rank that answers for it (the program flow,
//! `scr_scatter_filemaps`). The node's leader merges all filemaps into one file before each rank
//! replaces its own, so that each record is in a file at every instant. Where each rank has its own
//! records already, nothing is merged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::agree::agree;
use super::disk::names_in;
use super::names::is_filemap_name;
use super::store::{Held, decode_records, encode_records, read_records, write_records};
use super::untouched;
use crate::cache::Ctx;
use crate::comm::words;
use crate::error::{Error, Result};
use crate::files::{remove_file_if_there, sync_dir};
use crate::kvtree::KvTree;
use crate::records::{MASTER_FILEMAP, MasterFilemap, Record, filemap_name};

const MERGED: &str = "filemap_merged.scrinfo";

/// Makes this node's ranks answer for all records on it: a rank for its own, all ranks in turn for
/// those of ranks that run elsewhere now. Returns the damaged filemaps, whose data counts as lost.
/// Collective over the node.
pub(crate) fn scatter(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    let gathered = words::all_gather(ctx.node, [ctx.world.rank() as u64])?;
    let local_ranks: Vec<usize> = gathered.into_iter().map(|[rank]| rank as usize).collect();
    let merged =
        if ctx.is_node_leader() { merge(ctx, &local_ranks) } else { Ok(Merged::default()) };
    let merged = agree(ctx.node, merged)?;
    let shares = ctx.node.sparse_exchange(share_out(merged.held, &local_ranks))?;
    let own = shares.iter().map(|(_, bytes)| decode_records(&KvTree::decode(bytes)?));
    let own = own.collect::<Result<Vec<_>>>().map(|all| {
        let mut all: Vec<Held> = all.into_iter().flatten().collect();
        all.iter_mut().for_each(|(_, record)| untouched::offer(record));
        all
    });
    agree(ctx.node, own.and_then(|own| ctx.filemap.replace_all_unnamed(own)))?;
    let cleaned = if ctx.is_node_leader() { clean_up(ctx) } else { Ok(()) };
    agree(ctx.node, cleaned)?;
    Ok(merged.damaged)
}

#[derive(Default)]
pub(crate) struct Merged {
    pub held: Vec<Held>,
    pub damaged: Vec<PathBuf>,
    places: BTreeSet<(String, usize)>,
}

impl Merged {
    /// Each of `local_ranks` has its records in its own filemap, and there are no others.
    fn is_in_place(&self, local_ranks: &[usize]) -> bool {
        let own = |(name, owner): &(String, usize)| {
            let place = local_ranks.iter().position(|rank| rank == owner);
            place.is_some_and(|place| filemap_name(place) == *name)
        };
        self.damaged.is_empty() && self.places.iter().all(own)
    }
}

/// Writes the merged filemap only if records go from one to another.
fn merge(ctx: &Ctx, local_ranks: &[usize]) -> Result<Merged> {
    let control = &ctx.layout.control_dir;
    let merged = read_filemaps(control)?;
    if !merged.is_in_place(local_ranks) && !merged.held.is_empty() {
        write_records(&control.join(MERGED), &merged.held)?;
    }
    Ok(merged)
}

pub(crate) fn read_filemaps(control: &Path) -> Result<Merged> {
    let mut merged = Merged::default();
    for name in names_in(control)? {
        if !is_filemap_name(&name) || name == MASTER_FILEMAP {
            continue;
        }
        let path = control.join(&name);
        match read_records(&path) {
            Ok(held) => {
                merged.places.extend(held.iter().map(|(owner, _)| (name.clone(), *owner)));
                merged.held.extend(held);
            }
            Err(Error::Corrupt { .. }) => merged.damaged.push(path),
            Err(other) => return Err(other),
        }
    }
    // A kill among the replacements leaves a record twice. Should the two differ, the one that
    // promises less counts: Open sorts before Prepared.
    merged.held.sort_by(|a, b| {
        (a.0, &a.1.key, a.1.state, a.1.epoch).cmp(&(b.0, &b.1.key, b.1.state, b.1.epoch))
    });
    merged.held.dedup_by(|later, first| (later.0, &later.1.key) == (first.0, &first.1.key));
    Ok(merged)
}

fn share_out(held: Vec<Held>, local_ranks: &[usize]) -> Vec<(usize, Vec<u8>)> {
    let mut shares: Vec<Vec<Held>> = vec![Vec::new(); local_ranks.len()];
    let mut next = 0;
    for entry in held {
        let owner = local_ranks.iter().position(|rank| *rank == entry.0);
        let target = owner.unwrap_or_else(|| {
            next += 1;
            (next - 1) % local_ranks.len()
        });
        shares[target].push(entry);
    }
    let filled = shares.into_iter().enumerate().filter(|(_, share)| !share.is_empty());
    filled.map(|(target, share)| (target, encode_records(&share).encode())).collect()
}

/// Writes the list of filemaps, and removes those of ranks that the node no longer has.
fn clean_up(ctx: &Ctx) -> Result<()> {
    let control = &ctx.layout.control_dir;
    let current: Vec<String> = (0..ctx.node.size()).map(filemap_name).collect();
    let (list, path) =
        (MasterFilemap::for_node(control, ctx.node.size()), control.join(MASTER_FILEMAP));
    if !matches!(MasterFilemap::read(&path), Ok(Some(found)) if found == list) {
        list.write(&path)?;
    }
    let mut others = names_in(control)?;
    others
        .retain(|name| is_filemap_name(name) && name != MASTER_FILEMAP && !current.contains(name));
    if others.is_empty() {
        return Ok(());
    }
    // The names of the new filemaps are durable before the old ones go.
    sync_dir(control)?;
    others.iter().try_for_each(|name| remove_file_if_there(&control.join(name)))?;
    sync_dir(control)
}
