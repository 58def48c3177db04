//! Rebuild: lost files come back from the right, then lost copies come anew from the left.

use super::super::layout::LogicalFile;
use super::super::restore::Restore;
use super::super::ring::Ring;
use super::super::verify::compare_crcs;
use super::super::{MemberData, Protection, RedundancySet, Survivor};
use super::copies::{Manifest, copy_right, directory};
use super::stream::{Way, stream, swap_lists};
use crate::error::{Error, Result};
use crate::files::join_relative;

/// Who has lost what; the same on all members.
struct Losses {
    data: Vec<bool>,
    copies: Vec<bool>,
}

/// Finds out what is lost and restores it.
pub(super) fn rebuild(set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
    let ring = Ring::new(set);
    let manifest = Manifest::find(&ring, own);
    let losses = losses(&ring, own, manifest.is_some())?;
    check(&ring, own.id, &losses)?;

    let data = own.valid_data().cloned();
    let data = if losses.data.contains(&true) {
        restore_left(&ring, own, data, manifest.as_ref(), &losses.data)?
    } else {
        data
    };
    // Either it was there, or it was restored.
    let data = data.ok_or_else(|| Error::Other("files were neither there nor restored".into()))?;
    let kept = || match (&own.protection, &manifest) {
        (Some(protection), Some(_)) => protection.files.clone(),
        _ => Vec::new(),
    };
    let file_crcs = data.files.iter().map(|file| file.crc32).collect();
    if !losses.copies.contains(&true) {
        return Ok((data, Protection { files: kept(), file_crcs }));
    }
    let copied = copy_right(&ring, &data, &losses.copies)?;
    let files = copied.files.unwrap_or_else(kept);
    Ok((data, Protection { files, file_crcs: copied.file_crcs }))
}

/// Learns what every member has lost.
fn losses(ring: &Ring, own: &Survivor, has_copies: bool) -> Result<Losses> {
    let mut state = own.id.to_be_bytes().to_vec();
    state.extend(own.epoch.to_be_bytes());
    state.extend([u8::from(own.valid_data().is_none()), u8::from(!has_copies)]);
    let (mut data, mut copies) = (Vec::new(), Vec::new());
    let states = ring.comm.all_gather(&state)?;
    for theirs in &states {
        let Some((seal, &[no_data, no_copies])) = theirs.split_last_chunk() else {
            return Err(Error::Comm("a member's state is malformed".into()));
        };
        if !states[0].starts_with(seal) {
            let what = "the members of a set look for different datasets or seals";
            return Err(Error::Unrecoverable(what.into()));
        }
        data.push(no_data != 0);
        copies.push(no_copies != 0);
    }
    Ok(Losses { data, copies })
}

/// Whether every lost member's right neighbour has the copies.
fn check(ring: &Ring, id: u64, losses: &Losses) -> Result<()> {
    let gone: Vec<_> = (0..ring.size)
        .filter(|&member| losses.data[member] && losses.copies[(member + 1) % ring.size])
        .collect();
    if gone.is_empty() {
        return Ok(());
    }
    let ranks = ring.world_ranks(&gone);
    let what = format!("dataset {id}: files of {ranks} are lost, and so are their partner copies");
    Err(Error::Unrecoverable(what))
}

/// Sends the copies back to the left neighbours that lost their files. Gives this member's data.
fn restore_left(
    ring: &Ring,
    own: &Survivor,
    data: Option<MemberData>,
    manifest: Option<&Manifest>,
    lost: &[bool],
) -> Result<Option<MemberData>> {
    let way = Way::left(ring);
    let out = manifest.map(|manifest| &manifest.list).filter(|_| lost[ring.left]);
    let of = lost[ring.me].then_some(ring.me);
    let list = swap_lists(ring, way, own.id, out, of)?;
    let opened = out.map(|list| {
        let dir = join_relative(&own.dir, &directory(list.world_rank))?;
        Ok((LogicalFile::open(&dir, &list.files)?, dir, &list.files))
    });
    let opened = opened.transpose().and_then(|source| {
        let begin = |list| Restore::begin(&own.dir, list);
        Ok((source, list.clone().map(begin).transpose()?))
    });
    let (mut source, mut restore) = ring.agree(opened)?;
    let mut failed = stream(
        ring,
        way,
        source.as_mut().map(|(file, ..)| file),
        restore.as_mut().map(|restore| &mut restore.content),
    )?;
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
