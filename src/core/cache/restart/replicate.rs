//! Small files of other nodes: a header or a pointer file that every rank reads at a restart is on
//! every node, whoever wrote it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use super::rebuild::Offered;
use crate::cache::node::agree::any;
use crate::cache::node::disk::make_own_dir;
use crate::cache::{CatalogEntry, Ctx, NodeCatalog};
use crate::comm::trees;
use crate::error::{Error, Result};
use crate::files::{join_relative, read_own};
use crate::kvtree::KvTree;
use crate::log;

const REPLICATED_BYTES_MAX: u64 = 1 << 20;

/// Brings small files (up to 1 MiB in all) of dataset `offered` to every node, for programs whose
/// ranks read one another's files at a restart. Returns the names of all files of other nodes that
/// are now on this one. Collective.
pub fn replicate_small(ctx: &Ctx, offered: &Offered) -> Result<Vec<String>> {
    // In a store that others reach their files are there; one rank's place may be another's, too.
    let shares = ctx.sharing.is_shared(ctx.layout.store_index(&offered.store));
    if ctx.sharing.any() && any(ctx.world, shares)? {
        return Ok(Vec::new());
    }
    let small = choose(&offered.catalog);
    if small.is_empty() {
        return Ok(Vec::new()); // on all ranks: they have the same catalog
    }
    let me = ctx.world.rank();
    let own = small.iter().filter(|entry| entry.rank == me);
    let mut bytes = Vec::new();
    for entry in own {
        let mut content = Vec::new();
        let file = read_own(&offered.dir.join(&entry.meta.name));
        match file.and_then(|mut file| file.read_to_end(&mut content)) {
            Ok(_) if content.len() as u64 == entry.meta.size => bytes.extend(content),
            // The receivers see that the length is wrong and take nothing of this rank.
            _ => {
                bytes.clear();
                break;
            }
        }
    }
    let all = ctx.world.all_gather(&bytes)?;
    let is_local = |rank: usize| ctx.node_ranks.contains(&rank);
    let mut names = KvTree::new();
    if ctx.is_node_leader() {
        for (rank, content) in all.iter().enumerate().filter(|(rank, _)| !is_local(*rank)) {
            let files: Vec<_> = small.iter().filter(|entry| entry.rank == rank).collect();
            // What cannot be written here stays with its owner; only this node has to do without.
            if let Err(error) = unpack(&offered.dir, &files, content, &mut names) {
                log::message(1, format_args!("a small file of rank {rank}: {error}"));
            }
        }
    }
    Ok(trees::from_root(ctx.node, &names, 0)?.keys().map(str::to_owned).collect())
}

fn choose(catalog: &NodeCatalog) -> Vec<CatalogEntry> {
    let mut files: Vec<_> =
        catalog.entries().filter(|e| !e.meta.on_prefix && !e.meta.is_shared).collect();
    files.sort_by_key(|entry| entry.meta.size); // stable: by name and rank before
    let mut left = REPLICATED_BYTES_MAX;
    files.retain(|entry| {
        let fits = entry.meta.size <= left;
        left -= if fits { entry.meta.size } else { 0 };
        fits
    });
    files
}

fn unpack(dir: &Path, files: &[&CatalogEntry], content: &[u8], names: &mut KvTree) -> Result<()> {
    let total: u64 = files.iter().map(|entry| entry.meta.size).sum();
    if total != content.len() as u64 {
        return Ok(());
    }
    let mut rest = content;
    for entry in files {
        let (bytes, after) = rest.split_at(entry.meta.size as usize);
        rest = after;
        let path = join_relative(dir, &entry.meta.name)?;
        if let Some(parent) = path.parent() {
            make_own_dir(parent)?;
        }
        fs::write(&path, bytes)
            .and_then(|()| File::options().write(true).open(&path))
            .and_then(|file| entry.meta.give_to(&file))
            .map_err(|e| Error::io("cannot write", &path, e))?;
        names.child_mut(&entry.meta.name);
    }
    Ok(())
}
