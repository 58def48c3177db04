//! Contents of files that several nodes have written: each rank reads an equal piece of each.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::bytes::{Reader, Writer};
use crate::cache::Ctx;
use crate::error::{Error, Result};
use crate::files::{join_relative, read_own};
use crate::parts::{CrcShare, whole_crc32};
use crate::progress;
use crate::records::{FileMeta, Summary};

const BUFFER_BYTES: u64 = 1 << 20;

/// Finds those that are not what was flushed; with `contents` their checksums count, which nobody
/// reads a whole file for. Collective, the same on all ranks.
pub(crate) fn changed_wholes(
    ctx: &Ctx,
    summary: &Summary,
    contents: bool,
) -> Result<BTreeSet<String>> {
    let all = summary.files.values().flatten();
    let all: Vec<&FileMeta> = all.filter(|file| file.is_shared && !file.on_prefix).collect();
    if all.is_empty() {
        return Ok(BTreeSet::new());
    }
    let put = |out: &mut Writer, file: &&FileMeta| {
        let share = own_share(ctx, file, contents);
        out.flags(&[share.is_some()]).word32(share.unwrap_or(0));
    };
    let own = Writer::new().list(&all, put).take();
    let mut sums = vec![Some(0); all.len()];
    for theirs in ctx.world.all_gather(&own)? {
        let take = |from: &mut Reader| Some((from.flags()?, from.word32()?));
        let unreadable = || Error::Unreadable("a rank's shares of files cannot be read".into());
        let theirs = Reader::new(&theirs).list(take).ok_or_else(unreadable)?;
        for (sum, ([is_there], share)) in sums.iter_mut().zip(theirs) {
            *sum = sum.filter(|_| is_there).map(|sum| sum ^ share);
        }
    }
    let differs = |(file, sum): &(&FileMeta, Option<u32>)| match (sum, file.crc32) {
        (None, _) => true,
        (Some(sum), Some(expected)) if contents => whole_crc32(file.size, [*sum]) != expected,
        _ => false,
    };
    let changed = all.into_iter().zip(sums).filter(differs);
    Ok(changed.map(|(file, _)| file.name.clone()).collect())
}

/// `None`: the file has another length, or cannot be read.
fn own_share(ctx: &Ctx, meta: &FileMeta, contents: bool) -> Option<u32> {
    let path = join_relative(ctx.prefix, &meta.name).ok()?;
    let file = read_own(&path).ok()?;
    if file.metadata().ok()?.len() != meta.size {
        return None;
    }
    let (rank, ranks) = (ctx.world.rank() as u128, ctx.world.size() as u128);
    let bound = |rank: u128| (u128::from(meta.size) * rank / ranks) as u64;
    let (begin, end) = (bound(rank), bound(rank + 1));
    if contents && meta.crc32.is_some() { share_of(&file, meta.size, begin, end) } else { Some(0) }
}

fn share_of(file: &File, size: u64, mut at: u64, end: u64) -> Option<u32> {
    let mut share = CrcShare::new(size);
    let mut buffer = vec![0; (end - at).min(BUFFER_BYTES) as usize];
    while at < end {
        let bytes = &mut buffer[..(end - at).min(BUFFER_BYTES) as usize];
        file.read_exact_at(bytes, at).ok()?;
        share.add(at, bytes);
        progress::add_bytes(bytes.len() as u64);
        at += bytes.len() as u64;
    }
    Some(share.value())
}
