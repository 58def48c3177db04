//! Two encodings of one dataset, while it is protected anew for another placement of the ranks. The
//! old redundancy files must serve until every rank has the new ones, or a node that dies would
//! take both with it. So a rank encodes in `.scr/next.<world rank>/`, with links to the program's
//! files; then its record tells both encodings (`ENCODING / <n>`, and `BEFORE` the older
//! descriptor); when all ranks have such a record, the new files take their places and `BEFORE`
//! goes.
//!
//! At a restart the newest encoding serves if any record tells only that: every rank had it.
//! Otherwise an older one serves if any record tells only that: no rank has given it up.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::decide::{Claim, Decision};
use crate::cache::Ctx;
use crate::cache::node::agree::agree;
use crate::cache::node::disk::{make_own_dir, matches};
use crate::cache::node::layout::{Layout, store_of};
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::node::store::Held;
use crate::cache::node::untouched;
use crate::cache::sealing::encoding::{before, next_dir, number};
use crate::cache::sealing::own_part::{note_protection, protection_of};
use crate::cache::sealing::seal::protect;
use crate::comm::ranks::ranks_text;
use crate::error::{Error, Result};
use crate::files::{join_relative, remove_tree, sync_dir};
use crate::records::DatasetRecord;

pub(super) fn choose(claims: &[&Claim]) -> u64 {
    let newest = |claim: &&Claim| claim.encodings.first().map_or(0, |encoding| encoding.number);
    let top = claims.iter().map(newest).max().unwrap_or(0);
    let only = |claim: &&&Claim| claim.encodings.len() < 2;
    let committed = claims.iter().filter(only).any(|claim| newest(claim) == top);
    let lagging = claims.iter().any(|claim| newest(claim) < top);
    let older = claims.iter().filter_map(|claim| claim.encodings.get(1)).map(|e| e.number).max();
    match older {
        Some(older) if lagging && !committed => older,
        _ => top,
    }
}

fn records(ctx: &Ctx, chosen: &Decision) -> impl Iterator<Item = Held> {
    let of = (chosen.id, chosen.epoch);
    let held = ctx.filemap.held().into_iter();
    held.filter(move |(_, record)| (record.dataset_id, record.epoch) == of)
}

/// Tells whether a record of this rank tells two encodings of the dataset.
pub(super) fn is_between(ctx: &Ctx, chosen: &Decision) -> bool {
    records(ctx, chosen).any(|(_, record)| before(&record).is_some())
}

/// Makes this rank's records of the dataset tell only `encoding`, if they know it.
pub(super) fn adopt(ctx: &Ctx, chosen: &Decision, encoding: u64) -> Result<()> {
    for (owner, record) in records(ctx, chosen) {
        let Some(older) = before(&record) else { continue };
        if number(&record) == encoding {
            settle(ctx, owner, record)?;
        } else if number(&older) == encoding {
            ctx.filemap.put_held(owner, older)?;
        }
    }
    Ok(())
}

fn settle(ctx: &Ctx, owner: usize, record: DatasetRecord) -> Result<DatasetRecord> {
    let record = take_places(ctx.layout, owner, record)?;
    ctx.filemap.put_held(owner, record.clone())?;
    remove_tree(&next_dir(&ctx.layout.data_dir(&record), owner))?;
    Ok(record)
}

/// Returns a record as it is under `encoding`, if it knows that, with its files in their places.
/// Nothing is recorded: this is for copies of what a run has left.
pub(crate) fn under(
    layout: &Layout,
    owner: usize,
    record: DatasetRecord,
    encoding: u64,
) -> Result<DatasetRecord> {
    match before(&record) {
        Some(_) if number(&record) == encoding => take_places(layout, owner, record),
        Some(older) if number(&older) == encoding => Ok(older),
        _ => Ok(record),
    }
}

fn take_places(layout: &Layout, owner: usize, mut record: DatasetRecord) -> Result<DatasetRecord> {
    let dir = layout.data_dir(&record);
    let next = next_dir(&dir, owner);
    for file in protection_of(&record) {
        let (from, to) = (join_relative(&next, &file.name)?, join_relative(&dir, &file.name)?);
        if matches(&next, &file, true) {
            if let Some(parent) = to.parent() {
                make_own_dir(parent)?;
            }
            fs::rename(&from, &to).map_err(|e| Error::io("cannot rename", &from, e))?;
        }
    }
    sync_dir(&dir.join(OWN_FOLDER))?;
    record.descriptor.remove("BEFORE");
    Ok(record)
}

/// Chooses sets on the present placement and encodes for them, after the `newest` encoding of any
/// record. On an error the dataset is what it was before. Collective.
pub(super) fn encode_again(ctx: &Ctx, old: &DatasetRecord, newest: u64) -> Result<DatasetRecord> {
    let number = newest + 1;
    let me = ctx.world.rank();
    let next = agree(ctx.world, open_next(me, old))?;
    let mut wish = old.descriptor.clone();
    for key in ["OWN", "MEMBERS", "ENCODING", "BEFORE"] {
        wish.remove(key);
    }
    untouched::forget(&mut wish);
    let (set, descriptor) = agree(ctx.world, ctx.protection.choose(&wish))?;
    let mut record = DatasetRecord { descriptor, dir: next, ..old.clone() };
    record.descriptor.set_value("STORE", store_of(old));
    record.descriptor.set_value("MEMBERS", ranks_text(&set.world_ranks));
    record.descriptor.set_value("ENCODING", number);
    untouched::offer(&mut record); // all of it is new
    let protection = protect(ctx, &set, &record)?;
    agree(ctx.world, sync_dir(&record.dir.join(OWN_FOLDER)))?;
    note_protection(&mut record, &protection.files);
    record.dir = old.dir.clone();
    record.descriptor.set("BEFORE", old.descriptor.clone());
    agree(ctx.world, ctx.filemap.put_held(me, record.clone()))?;
    agree(ctx.world, settle(ctx, me, record))
}

fn open_next(owner: usize, record: &DatasetRecord) -> Result<PathBuf> {
    let next = next_dir(&record.dir, owner);
    remove_tree(&next)?;
    make_own_dir(&next.join(OWN_FOLDER))?;
    for file in record.files.iter().filter(|file| !file.on_prefix) {
        let name = file.place();
        let (from, to) = (record.dir.join(name), join_relative(&next, name)?);
        if let Some(parent) = to.parent() {
            make_own_dir(parent)?;
        }
        match fs::hard_link(&from, &to) {
            // Parts of several ranks lie in one file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && file.is_live() => {}
            linked => linked.map_err(|e| Error::io("cannot link", &from, e))?,
        }
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::sealing::encoding::Encoding;

    fn claim(numbers: &[u64]) -> Claim {
        let encoding = |number: &u64| Encoding { number: *number, set: vec![], protected: true };
        let encodings = numbers.iter().map(encoding).collect();
        Claim { encodings, ..Claim::new(0, 0, &DatasetRecord::default()) }
    }

    fn chosen(claims: &[&[u64]]) -> u64 {
        let claims: Vec<Claim> = claims.iter().map(|numbers| claim(numbers)).collect();
        choose(&claims.iter().collect::<Vec<_>>())
    }

    #[test]
    fn an_encoding_serves_only_if_every_rank_has_it() {
        assert_eq!(chosen(&[&[0], &[0]]), 0);
        assert_eq!(chosen(&[&[0], &[1, 0]]), 0, "not all have the new one");
        assert_eq!(chosen(&[&[1, 0], &[1, 0]]), 1);
        assert_eq!(chosen(&[&[1], &[1, 0]]), 1, "some have given up the old one");
        assert_eq!(chosen(&[&[0], &[1], &[1, 0]]), 1, "a node that was away has the old one");
        assert_eq!(chosen(&[&[3, 2], &[2]]), 2);
    }
}
