//! Rebuild: lost files come back from the right, then lost copies come anew from the left.

use super::super::layout::LogicalFile;
use super::super::restore::Restore;
use super::super::ring::{Deferred, Ring};
use super::super::verify::compare_crcs;
use super::super::{MemberData, Protection, RedundancySet, Survivor};
use super::copies::{Manifest, copies_kept, copy_right, directory, of_owner};
use super::stream::{Direction, Passing, stream, swap_lists};
use crate::bytes::Writer;
use crate::error::{Error, Result};
use crate::files::join_relative;

struct Losses {
    data: Vec<bool>,
    /// For each distance, the nearest first: who lacks the copies of the neighbour so far left.
    copies: Vec<Vec<bool>>,
}

pub(super) fn rebuild(set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
    let ring = Ring::new(set);
    let distances = 1..=copies_kept(set);
    let manifests: Vec<_> = distances.clone().map(|d| Manifest::find(&ring, d, own)).collect();
    let losses = losses(&ring, own, &manifests)?;
    check(&ring, own.id, &losses)?;

    let mut data = own.valid_data().cloned();
    for (distance, manifest) in distances.clone().zip(&manifests) {
        let lost: Vec<_> =
            (0..ring.size).map(|member| losses.keeper(member) == Some(distance)).collect();
        if lost.contains(&true) {
            data = restore_left(&ring, distance, own, data, manifest.as_ref(), &lost)?;
        }
    }
    // Either it was there, or it was restored.
    let data =
        data.ok_or_else(|| Error::Missing("files were neither there nor restored".into()))?;
    let known = own.protection.as_ref().map(|protection| &protection.files[..]).unwrap_or_default();
    let file_crcs = data.files.iter().map(|file| file.crc32).collect();
    let mut protection = Protection { files: Vec::new(), file_crcs };
    for (distance, manifest) in distances.zip(&manifests) {
        let lost = &losses.copies[distance - 1];
        let copied = match lost.contains(&true) {
            true => ring.agree(copy_right(&ring, distance, Ok(data.clone()), lost))?.1.files,
            false => None,
        };
        let kept = || {
            let owner = ring.world_rank(ring.left_by(distance));
            manifest.as_ref().map(|_| of_owner(known, owner)).unwrap_or_default()
        };
        protection.files.extend(copied.unwrap_or_else(kept));
    }
    Ok((data, protection))
}

fn losses(ring: &Ring, own: &Survivor, manifests: &[Option<Manifest>]) -> Result<Losses> {
    let mut out = Writer::new();
    out.word(own.id).word(own.epoch);
    let seal_bytes = out.len();
    out.flags(&[own.valid_data().is_none()]);
    manifests.iter().for_each(|manifest| _ = out.flags(&[manifest.is_none()]));
    let state = out.take();
    let states = ring.comm.all_gather(&state)?;
    if states.iter().any(|theirs| theirs.len() != state.len()) {
        return Err(Error::Comm("a member's state is malformed".into()));
    }
    if states.iter().any(|theirs| theirs[..seal_bytes] != states[0][..seal_bytes]) {
        let what = "the members of a set look for different datasets or seals";
        return Err(Error::Unrecoverable(what.into()));
    }
    let column = |at: usize| states.iter().map(|theirs| theirs[seal_bytes + at] != 0).collect();
    Ok(Losses { data: column(0), copies: (1..=manifests.len()).map(column).collect() })
}

impl Losses {
    /// How far to the right of a member that has lost its files is the nearest one with copies.
    fn keeper(&self, member: usize) -> Option<usize> {
        let has = |distance: &usize| {
            let lost = &self.copies[distance - 1];
            !lost[(member + distance) % lost.len()]
        };
        (1..=self.copies.len()).find(has).filter(|_| self.data[member])
    }
}

fn check(ring: &Ring, id: u64, losses: &Losses) -> Result<()> {
    let gone: Vec<_> = (0..ring.size)
        .filter(|&member| losses.data[member] && losses.keeper(member).is_none())
        .collect();
    if gone.is_empty() {
        return Ok(());
    }
    let ranks = ring.world_ranks(&gone);
    let what = format!("dataset {id}: files of {ranks} are lost, and so are their partner copies");
    Err(Error::Unrecoverable(what))
}

/// Sends the copies back to the left neighbours at `distance`. Gives this member's data.
fn restore_left(
    ring: &Ring,
    distance: usize,
    own: &Survivor,
    data: Option<MemberData>,
    manifest: Option<&Manifest>,
    lost: &[bool],
) -> Result<Option<MemberData>> {
    let way = Direction::left(ring, distance);
    let out = manifest.map(|manifest| &manifest.list).filter(|_| lost[way.to]);
    let of = lost[ring.me].then_some(ring.me);
    let (coming, list) = swap_lists(ring, way, own.id, out, of)?;
    let list = ring.agree(list)?;
    let opened = out.map(|list| {
        let dir = join_relative(&own.dir, &directory(list.world_rank))?;
        Ok((LogicalFile::open(&dir, &list.files)?, dir, &list.files))
    });
    let opened = opened.transpose().and_then(|source| {
        let begin = |list| Restore::begin(&own.dir, list);
        Ok((source, list.clone().map(begin).transpose()?))
    });
    let bytes = |source: &Option<(LogicalFile, _, _)>| source.as_ref().map_or(0, |s| s.0.total());
    let ((mut source, mut restore), longest) =
        ring.agree_and_max(opened, |(source, _)| bytes(source))?;
    let mut failed = Deferred::default();
    let out = source.as_mut().map(|(file, ..)| file);
    let into = restore.as_mut().map(|restore| &mut restore.content);
    stream(ring, way, Passing { out, into, coming, longest }, &mut failed)?;
    if let Some((file, dir, files)) = &source {
        failed.act(|| compare_crcs(dir, files, &file.crcs()));
    }
    let checked = failed.outcome().and_then(|()| restore.as_mut().map(Restore::check).transpose());
    let files = ring.agree(checked)?;
    ring.agree(restore.map_or(Ok(()), Restore::publish))?;
    Ok(match (files, list) {
        (Some(files), Some(list)) => {
            let (dir, id, epoch) = (own.dir.clone(), own.id, own.epoch);
            Some(MemberData { dir, id, epoch, files, record: list.record })
        }
        _ => data,
    })
}
