//! Rebuild: in each slot a member makes what is missing there from what the others have (manual
//! 1.1, section 7.3.3; the program flow), files and parity alike. What the files were, a lost
//! member learns from the copies of its list.
//!
//! The slots' work is shared by those who have lost nothing.

use super::code::Code;
use super::encode;
use super::header::ParityHeader;
use super::lists::{self, Lists};
use super::part::{ChunkReader, Parity, ParityWriter};
use super::pipeline::{Sides, run};
use super::schedule::{SlotWork, choose_worker};
use super::shape::{Content, Shape};
use super::state::MemberState;
use crate::error::{Error, Result};
use crate::redundancy::layout::LogicalFile;
use crate::redundancy::restore::Restore;
use crate::redundancy::ring::{Deferred, Ring};
use crate::redundancy::verify::compare_crcs;
use crate::redundancy::{MemberData, MemberList, Protection, RedundancySet, Survivor};

/// What is to be done; the same on all members.
enum RebuildPlan {
    Keep,
    /// All files are there, and there is no parity that fits them.
    Encode,
    Restore {
        works: Vec<SlotWork>,
        chunk_bytes: u64,
    },
}

struct Own<'a> {
    survivor: &'a Survivor,
    data: Option<&'a MemberData>,
    parity: Option<Parity>,
}

pub fn rebuild(
    code: Code,
    set: &RedundancySet,
    own: &Survivor,
) -> Result<(MemberData, Protection)> {
    let ring = Ring::new(set);
    let shape = Shape::of(code, set)?;
    let parity = Parity::find(&ring, code, shape, own);
    let own = Own { survivor: own, data: own.valid_data(), parity };
    let mut states = Vec::with_capacity(ring.size);
    for bytes in ring.comm.all_gather(&own.state().to_bytes())? {
        states.push(MemberState::from_bytes(&bytes)?);
    }
    match (plan(&ring, code, shape, &states)?, own.data) {
        (RebuildPlan::Keep, Some(data)) => {
            let looked = own
                .open()
                .and_then(|(mut files, mut chunks)| own.compare(files.as_mut(), chunks.as_mut()));
            ring.agree(looked)?;
            Ok((data.clone(), own.kept()))
        }
        (RebuildPlan::Encode, Some(data)) => {
            let encoded = encode::encode(code, set, Ok(data.clone()));
            Ok((data.clone(), ring.agree(encoded)?))
        }
        (RebuildPlan::Restore { works, chunk_bytes }, _) => {
            let id = own.survivor.id;
            let parity = own.parity.as_ref();
            let lists = lists::exchange(&ring, shape, &states, id, own.data, parity)?;
            restore(&ring, code, shape, &own, lists, &works, chunk_bytes)
        }
        // The plan follows from the states, this member's among them.
        _ => Err(Error::Unreadable("the members' states contradict one another".into())),
    }
}

fn plan(ring: &Ring, code: Code, shape: Shape, states: &[MemberState]) -> Result<RebuildPlan> {
    let id = states[0].id;
    if states.iter().any(|state| (state.id, state.epoch) != (id, states[0].epoch)) {
        let what = "the members of a set look for different datasets or seals";
        return Err(Error::Unrecoverable(what.into()));
    }
    let all_data = states.iter().all(|state| state.data);
    let largest = states.iter().map(|state| state.total).max().unwrap_or(0);
    let mut sizes = states.iter().filter_map(|state| state.chunk_bytes);
    let chunk_bytes = sizes.next();
    let fits = |size: u64| match all_data {
        true => size == shape.chunk_bytes(largest),
        // The largest one may be among the lost.
        false => size >= shape.chunk_bytes(largest),
    };
    if chunk_bytes.is_some_and(|size| !fits(size) || sizes.any(|other| other != size)) {
        if all_data {
            return Ok(RebuildPlan::Encode);
        }
        let what = format!("the {} files of dataset {id} do not fit together", code.name());
        return Err(Error::Unrecoverable(what));
    }
    let whole = |state: &MemberState| state.data && state.chunk_bytes.is_some();
    if states.iter().all(whole) {
        return Ok(RebuildPlan::Keep);
    }
    match chunk_bytes {
        None if all_data => Ok(RebuildPlan::Encode),
        _ => match (works(shape, states), chunk_bytes) {
            (Some(works), Some(chunk_bytes)) => Ok(RebuildPlan::Restore { works, chunk_bytes }),
            _ => {
                let lost = (0..states.len()).filter(|&member| !whole(&states[member]));
                let lost = ring.world_ranks(&lost.collect::<Vec<_>>());
                let (scheme, members) = (code.name(), shape.members);
                let k = match shape.parities {
                    1 => "one".to_string(),
                    k => k.to_string(),
                };
                Err(Error::Unrecoverable(format!(
                    "dataset {id}: {lost} of one {scheme} set of {members} lost files; it can \
                     restore {k}"
                )))
            }
        },
    }
}

/// The slots in which something is missing; `None` if it is too much.
fn works(shape: Shape, states: &[MemberState]) -> Option<Vec<SlotWork>> {
    let has = |member: usize, content| match content {
        Content::Data(_) => states[member].data,
        Content::Parity(_) => states[member].chunk_bytes.is_some(),
    };
    let everyone = 0..shape.members;
    let whole = |member: &usize| states[*member].data && states[*member].chunk_bytes.is_some();
    let workers: Vec<_> = everyone.clone().filter(whole).collect();
    // If everyone has lost something, everyone works.
    let workers = if workers.is_empty() { everyone.clone().collect() } else { workers };
    let mut busy = vec![0; shape.members];
    let mut works = Vec::new();
    for slot in everyone {
        let recipe = shape.recipe(slot, &has)?;
        if !recipe.targets.is_empty() {
            let worker = choose_worker(&workers, &mut busy)?;
            works.push(SlotWork { slot, worker, recipe });
        }
    }
    Some(works)
}

/// This member's part of it: what it has is only read, what it has not is made anew.
fn restore(
    ring: &Ring,
    code: Code,
    shape: Shape,
    own: &Own,
    mut lists: Lists,
    works: &[SlotWork],
    chunk_bytes: u64,
) -> Result<(MemberData, Protection)> {
    let dir = &own.survivor.dir;
    let list = ring.agree(own_list(ring, shape, own, &mut lists, chunk_bytes))?;
    let opened = own.open();
    let begun = opened.and_then(|(files, chunks)| {
        let restore = match own.data {
            None => Some(Restore::begin(dir, list.clone())?),
            Some(_) => None,
        };
        let Survivor { id, epoch, .. } = *own.survivor;
        let mut header = ParityHeader::of(ring.set, code, shape.parities, chunk_bytes, id, epoch);
        header.current = list.clone();
        header.partners = (1..=shape.parities)
            .map(|distance| lists.remove(&ring.left_by(distance)).unwrap_or_default())
            .collect();
        let name = ParityHeader::file_name(code, ring.set);
        let writer = match own.parity {
            None => Some(ParityWriter::create(dir, name, &header)?),
            Some(_) => None,
        };
        Ok((files, chunks, restore, writer, header))
    });
    let (mut files, mut chunks, mut restore, mut writer, header) = ring.agree(begun)?;
    let mut sides = Sides {
        shape,
        me: ring.me,
        chunk_bytes,
        files: files.as_mut(),
        parity: chunks.as_mut(),
        restored: restore.as_mut().map(|restore| &mut restore.content),
        writer: writer.as_mut(),
    };
    let mut failed = Deferred::default();
    run(ring, works, &mut sides, &mut failed)?;
    failed.act(|| own.compare(files.as_mut(), chunks.as_mut()));
    if let Some(files) = &files {
        // The list that was protected may know checksums that the record does not.
        failed.act(|| compare_crcs(dir, &list.files, &files.crcs()));
    }
    let finished = failed.outcome().and_then(|()| {
        let metas = restore.as_mut().map(Restore::check).transpose()?;
        Ok((metas, writer.as_mut().map(|writer| writer.finish(&header)).transpose()?))
    });
    let (metas, parity_meta) = ring.agree(finished)?;
    let published = restore.map_or(Ok(()), Restore::publish);
    ring.agree(published.and_then(|()| writer.map_or(Ok(()), ParityWriter::publish_durably)))?;
    let data = match (own.data, metas) {
        (Some(data), _) => data.clone(),
        (None, metas) => own.restored(list, metas.unwrap_or_default()),
    };
    let file_crcs = data.files.iter().map(|file| file.crc32).collect();
    let files = match parity_meta {
        Some(meta) => vec![meta],
        None => own.kept().files,
    };
    Ok((data, Protection { files, file_crcs }))
}

/// The list of this member: what it has, or what it is told that it had.
fn own_list(
    ring: &Ring,
    shape: Shape,
    own: &Own,
    lists: &mut Lists,
    chunk_bytes: u64,
) -> Result<MemberList> {
    let told = match (&own.parity, own.data) {
        (Some(parity), _) => Some(parity.header.current.clone()),
        (None, Some(data)) => Some(MemberList::of(ring.set, data)),
        (None, None) => lists.remove(&ring.me),
    };
    let rank = ring.world_rank(ring.me);
    let mut list = told.ok_or_else(|| Error::Remote(format!("rank {rank} has no file list")))?;
    list.host = ring.set.hosts.get(ring.me).cloned().unwrap_or_default();
    if shape.chunk_bytes(list.total_bytes()) > chunk_bytes {
        let what = "the copy of its file list has more data than its set";
        return Err(Error::Unrecoverable(format!("rank {rank}: {what}")));
    }
    Ok(list)
}

impl Own<'_> {
    fn state(&self) -> MemberState {
        let bytes = |data: &MemberData| -> u64 {
            let cached = data.files.iter().filter(|file| !file.on_prefix);
            cached.fold(0, |sum, file| sum.saturating_add(file.size))
        };
        MemberState {
            id: self.survivor.id,
            epoch: self.survivor.epoch,
            data: self.data.is_some(),
            total: self.data.map_or(0, bytes),
            chunk_bytes: self.parity.as_ref().map(|parity| parity.header.chunk_bytes),
        }
    }

    fn kept(&self) -> Protection {
        let protection = self.survivor.protection.as_ref().filter(|_| self.parity.is_some());
        protection.cloned().unwrap_or_default()
    }

    fn open(&self) -> Result<(Option<LogicalFile>, Option<ChunkReader>)> {
        let files = self.data.map(|data| LogicalFile::open(&data.dir, &data.files)).transpose()?;
        Ok((files, self.parity.as_ref().map(Parity::open).transpose()?))
    }

    /// Compares what it has with the recorded checksums, as far as it has been read, and reads what
    /// nobody has compared.
    fn compare(
        &self,
        files: Option<&mut LogicalFile>,
        chunks: Option<&mut ChunkReader>,
    ) -> Result<()> {
        let Survivor { dir, compared, .. } = self.survivor;
        if let (Some(data), Some(files)) = (self.data, files) {
            if !compared {
                files.read_rest()?;
            }
            compare_crcs(dir, &data.files, &files.crcs())?;
        }
        match chunks {
            Some(chunks) if !compared => chunks.compare(dir),
            _ => Ok(()),
        }
    }

    fn restored(&self, list: MemberList, files: Vec<crate::records::FileMeta>) -> MemberData {
        let Survivor { dir, id, epoch, .. } = self.survivor;
        let (dir, record) = (dir.clone(), list.record);
        MemberData { dir, id: *id, epoch: *epoch, files, record }
    }
}
