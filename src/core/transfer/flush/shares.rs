//! A whole dataset to the prefix by those who have its files, whichever ranks wrote them.

use super::sync_flush::{announce_part, part_of, publish_staged_parts, undo};
use crate::cache::agree::{agree, agree_and_ask};
use crate::cache::{Catalog, CatalogEntry, Ctx, Share};
use crate::comm::{Comm, trees};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::progress::{self, Total};
use crate::system::{Lanes, in_lanes};
use crate::transfer::prefix::window::Left;
use crate::transfer::publish::about::About;
use crate::transfer::publish::journal::Journal;
use crate::transfer::publish::newer::leave_as_is;
use crate::transfer::publish::options::in_turns;
use crate::transfer::publish::parts::agree_on_wholes;
use crate::transfer::publish::stage::Stager;

/// Publishes the dataset that the `shares` of all ranks make up; `ranks` wrote it. Files that are
/// `left_out`, by name, are only listed. `lanes`: threads of this rank that copy.
/// Returns what has left the prefix for it, known to rank 0. Collective.
pub fn flush_shares(
    ctx: &Ctx,
    shares: &[Share],
    ranks: usize,
    left_out: &dyn Fn(&str) -> bool,
    lanes: Lanes,
) -> Result<Left> {
    let about = common_about(ctx, shares, ranks)?;
    let mut shares = shares.to_vec();
    shares.iter_mut().for_each(|share| leave_as_is(ctx.prefix, &mut share.record, left_out));
    let journal = Journal::new(ctx.prefix, about.dataset.id);
    let cleared = if ctx.world.rank() == 0 { journal.clear() } else { Ok(()) };
    let any_has_parts = |(): &()| shares.iter().any(|share| share.record.has_parts());
    if agree_and_ask(ctx.world, cleared, any_has_parts)?.1 {
        let files = shares.iter_mut().flat_map(|share| &mut share.record.files);
        agree_on_wholes(ctx, files, left_out)?;
    }
    let own = catalog_of(&about, &shares);
    let part = gather(ctx.node, &own)?;
    announce_part(ctx, &journal, &part, &about)?;
    let stage = || stage_shares(ctx, &mut shares, lanes);
    let staged = in_turns(ctx.world, ctx.transfer.flush_width, stage);
    if let Err(error) = agree(ctx.world, staged) {
        undo(ctx, &journal, &own, &error)?;
        return Err(error);
    }
    let entries = gather(ctx.world, &catalog_of(&about, &shares))?.entries;
    let gate = |_: &str, publish: &mut dyn FnMut() -> Result<()>| publish().map(|()| true);
    publish_staged_parts(ctx, &journal, &about, &own, &entries, &gate).map(|(_, left)| left)
}

/// As the first rank that has a share knows it. Collective.
fn common_about(ctx: &Ctx, shares: &[Share], ranks: usize) -> Result<About> {
    let own = shares.first().map(|share| About::of_record(&share.record, ranks));
    let own = own.map(|about| about.to_tree().encode()).unwrap_or_default();
    let all = ctx.world.all_gather(&own)?;
    let first = all.iter().find(|bytes| !bytes.is_empty());
    let about = first.and_then(|bytes| About::from_tree(&KvTree::decode(bytes).ok()?));
    about.ok_or_else(|| Error::Missing("nobody has a file of the dataset".into()))
}

fn catalog_of(about: &About, shares: &[Share]) -> Catalog {
    let of_share = |share: &Share| part_of(share.owner, &share.record).entries;
    let mut entries: Vec<CatalogEntry> = shares.iter().flat_map(of_share).collect();
    entries.sort_by_key(|entry| entry.rank);
    let dataset = &about.dataset;
    Catalog { id: dataset.id, epoch: dataset.epoch, key: dataset.key.clone(), entries }
}

/// Collective.
fn gather(comm: &dyn Comm, own: &Catalog) -> Result<Catalog> {
    let mut all = Catalog { entries: Vec::new(), ..own.clone() };
    for theirs in trees::all_gather(comm, &own.to_tree())? {
        let unreadable = || Error::Unreadable("a rank's list of files cannot be read".into());
        let theirs = Catalog::from_tree(&theirs).ok_or_else(unreadable)?;
        all.entries.extend(theirs.entries);
    }
    all.entries.sort_by_key(|entry| entry.rank);
    Ok(all)
}

/// Notes checksums that were not known before.
fn stage_shares(ctx: &Ctx, shares: &mut [Share], lanes: Lanes) -> Result<()> {
    let all = shares.iter().flat_map(|one| one.record.files.iter().map(|file| (&one.record, file)));
    let files: Vec<_> = all.filter(|(_, file)| !file.on_prefix).collect();
    let bytes = files.iter().map(|(_, file)| file.size).sum();
    let _step = progress::step("copying to the prefix", Total::Bytes(Some(bytes)));
    let (prefix, options) = (ctx.prefix, ctx.transfer);
    let stage_one = |at: usize| {
        let (record, file) = files[at];
        let mut stager = Stager::default();
        let found = stager.stage(&record.dir, prefix, record.epoch, file, options.copy())?;
        stager.finish().map(|()| found)
    };
    let found = in_lanes(lanes, files.len(), &stage_one).into_iter().collect::<Result<Vec<_>>>()?;
    let files = shares.iter_mut().flat_map(|one| &mut one.record.files);
    let staged = files.filter(|file| !file.on_prefix);
    staged.zip(found).for_each(|(file, found)| file.note_prefix_checksum(found));
    Ok(())
}
