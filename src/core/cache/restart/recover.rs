//! At a restart: what is lost of one dataset is rebuilt by its scheme, and protected anew where the
//! placement of the ranks asks for it (the program flow, `scr_reddesc_recover`).

use std::collections::BTreeSet;
use std::path::Path;

use super::decide::Decision;
use super::protect_anew::encode_again;
use super::survey::Facts;
use crate::cache::node::agree::{agree, any, any_of};
use crate::cache::node::context::unknown_scheme;
use crate::cache::node::disk::{make_own_dir, matches};
use crate::cache::node::layout::{Layout, store_of};
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::node::untouched;
use crate::cache::removal::sweep;
use crate::cache::sealing::encoding;
use crate::cache::sealing::own_part::{member_data, note_protection, protection_of};
use crate::cache::{Ctx, Protect};
use crate::comm::ranks::{parse_ranks, ranks_phrase, ranks_text};
use crate::error::{Error, Result};
use crate::records::{DatasetRecord, FileMeta, RecordedState};
use crate::redundancy::{MemberData, Protection, RedundancySet, Survivor};

/// What is read at a start before the ranks know whether anything is lost.
const QUICK_BYTES_MAX: u64 = 1 << 20;

pub(crate) struct Case<'a> {
    pub chosen: &'a Decision,
    pub facts: &'a Facts,
    pub hosts: &'a [String],
}

pub(super) struct Recovered {
    pub record: DatasetRecord,
    pub rebuilt: Vec<usize>,
    pub reencoded: bool,
    pub unprotected: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// The program's files are right, redundancy files are not all there.
    Unprotected,
    Lost,
}

#[derive(Clone)]
pub(crate) struct Inspected {
    pub record: Option<DatasetRecord>,
    pub part: Part,
}

/// Rebuilds what is lost. The inner error says why the dataset cannot be had. Collective; the
/// outcome is the same on all ranks.
pub(super) fn recover(ctx: &Ctx, case: &Case) -> Result<std::result::Result<Recovered, String>> {
    let own = inspect(ctx, case, Look::Sizes);
    let is_as_left = is_as_left(ctx, case, &own);
    let (parts, all_as_left) = gather_parts(ctx, own.part, is_as_left)?;
    if let Some(record) = own.record.filter(|_| all_as_left) {
        release_leftovers(ctx, case)?;
        let (rebuilt, unprotected) = (Vec::new(), None);
        return Ok(Ok(Recovered { record, rebuilt, reencoded: false, unprotected }));
    }
    let trusted = comparing_sets(ctx, case, &parts);
    let mut outcome = attempt(ctx, case, &trusted, Look::Touched)?;
    let unread = outcome.is_err() && any(ctx.world, has_redundancy(ctx, case))?;
    if unread || outcome.is_err() && !trusted.is_empty() {
        // It may be that what was not looked at is damaged. Nothing of that set was changed.
        outcome = attempt(ctx, case, &[], Look::Content)?;
    }
    if let Ok(recovered) = &mut outcome {
        // Files that the first attempt has brought back were there for the second one.
        recovered.rebuilt.extend(lost(&parts));
        recovered.rebuilt.sort_unstable();
        recovered.rebuilt.dedup();
    }
    Ok(outcome)
}

/// Whether [`attempt`] would find nothing to do for this rank, and that can be told without reading
/// much: mostly so on all ranks, which then agree on nothing more.
fn is_as_left(ctx: &Ctx, case: &Case, own: &Inspected) -> bool {
    let Some(record) = own.record.as_ref().filter(|_| own.part == Part::Whole) else {
        return false;
    };
    let cached = record.files.iter().filter(|file| !file.on_prefix).cloned();
    let files = cached.chain(protection_of(record));
    let unknown = files.filter(|file| !untouched::is_untouched(record, &record.dir, file));
    unknown.map(|file| file.size).sum::<u64>() <= QUICK_BYTES_MAX
        && is_spread(ctx, record)
        && inspect(ctx, case, Look::Touched).part == Part::Whole
}

fn is_spread(ctx: &Ctx, record: &DatasetRecord) -> bool {
    ctx.protection.is_spread(&record.descriptor, &members(record))
}

/// The ranks of sets that have something to rebuild and compare meanwhile all that is there. A look
/// at it before would read all files twice, which takes a quarter of a restart after a lost node.
fn comparing_sets(ctx: &Ctx, case: &Case, parts: &[Part]) -> Vec<usize> {
    match (ctx.protection.scheme(&case.facts.scheme), plan_sets(case.facts, parts)) {
        (Some(scheme), Ok(rounds)) if scheme.compares_on_the_way() => {
            rounds.into_iter().flatten().flatten().collect()
        }
        _ => Vec::new(),
    }
}

fn has_redundancy(ctx: &Ctx, case: &Case) -> bool {
    ctx.filemap.get_id(case.chosen.id).is_some_and(|record| !protection_of(&record).is_empty())
}

fn lost(parts: &[Part]) -> impl Iterator<Item = usize> {
    (0..parts.len()).filter(|rank| parts[*rank] == Part::Lost)
}

/// As [`recover`]; the files of `trusted` ranks are not looked at before the rebuild, those of
/// others by `look`.
fn attempt(
    ctx: &Ctx,
    case: &Case,
    trusted: &[usize],
    look: Look,
) -> Result<std::result::Result<Recovered, String>> {
    let me = ctx.world.rank();
    let all_read = look == Look::Content;
    let look = if trusted.contains(&me) { Look::Sizes } else { look };
    let mut own = inspect(ctx, case, look);
    let (parts, _) = gather_parts(ctx, own.part, false)?;
    let rebuilt = lost(&parts).collect();
    let rounds = match plan_sets(case.facts, &parts) {
        Ok(rounds) => rounds,
        Err(reason) => return Ok(Err(reason)),
    };
    let planned = rounds.iter().flatten().any(|set| set.contains(&me));
    let mut must_encode = own.part == Part::Unprotected && !planned;
    for round in &rounds {
        let own_set = round.iter().find(|set| set.contains(&me));
        let needed = own_set.is_some_and(|s| s.iter().any(|rank| parts[*rank] == Part::Lost));
        let mut outcome = rebuild_round(ctx, case, round, &mut own, look);
        let failed = matches!(&outcome, Err(error) if !matches!(error, Error::Comm(_)));
        if failed && !needed && all_read {
            // Nothing but redundancy is lost, and that can be made anew from the files.
            must_encode = true;
            outcome = Ok(());
        }
        if let Some(reason) = common_reason(ctx, outcome)? {
            return Ok(Err(reason));
        }
    }
    must_encode |= !own.record.as_ref().is_some_and(|record| is_spread(ctx, record));
    let [missing, must_encode] = any_of(ctx.world, [own.record.is_none(), must_encode])?;
    let Some(record) = own.record.filter(|_| !missing) else {
        return Ok(Err("a rank still has no record of it after the rebuild".into()));
    };
    let mut recovered = Recovered { record, rebuilt, reencoded: false, unprotected: None };
    if must_encode {
        // What is encoded is compared before; the old redundancy could bring it back.
        if any(ctx.world, !all_read && !untouched_are_right(&recovered.record))? {
            return Ok(Err("files of it are damaged".into()));
        }
        match encode_again(ctx, &recovered.record, case.facts.newest) {
            Ok(record) => (recovered.record, recovered.reencoded) = (record, true),
            Err(Error::Comm(what)) => return Err(Error::Comm(what)),
            Err(reason) => recovered.unprotected = Some(reason.to_string()),
        }
    }
    if recovered.unprotected.is_none() {
        release_leftovers(ctx, case)?;
    }
    Ok(Ok(recovered))
}

fn untouched_are_right(record: &DatasetRecord) -> bool {
    let dir = &record.dir;
    let unread = record.files.iter().filter(|file| untouched::is_untouched(record, dir, file));
    unread.into_iter().all(|file| matches(dir, file, true))
}

/// The first rank's sentence about why it failed, the same on all ranks.
fn common_reason(ctx: &Ctx, outcome: Result<()>) -> Result<Option<String>> {
    let sentence = match outcome {
        Ok(()) => String::new(),
        Err(Error::Comm(what)) => return Err(Error::Comm(what)),
        Err(Error::Unrecoverable(what)) => what,
        Err(other) => format!("rank {}: {other}", ctx.world.rank()),
    };
    if !any(ctx.world, !sentence.is_empty())? {
        return Ok(None);
    }
    let all = ctx.world.all_gather(sentence.as_bytes())?;
    let first = all.iter().find(|bytes| !bytes.is_empty());
    Ok(first.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Sizes,
    /// The checksum is right, too, of those that are not known to be untouched.
    Touched,
    Content,
}

fn inspect(ctx: &Ctx, case: &Case, look: Look) -> Inspected {
    let own = ctx.filemap.get_id(case.chosen.id);
    match own.filter(|record| record.epoch == case.chosen.epoch) {
        Some(record) => inspect_record(ctx.layout, record, case.facts.encoding, look),
        None => Inspected { record: None, part: Part::Lost },
    }
}

pub(crate) fn inspect_record(
    layout: &Layout,
    record: DatasetRecord,
    encoding: u64,
    look: Look,
) -> Inspected {
    let dir = layout.data_dir(&record);
    let record = DatasetRecord { dir: dir.clone(), ..record };
    let mut program = record.files.iter().filter(|file| !file.on_prefix);
    let right = |file: &FileMeta| {
        let content = match look {
            Look::Sizes => false,
            Look::Touched => !untouched::is_untouched(&record, &dir, file),
            Look::Content => true,
        };
        matches(&dir, file, content)
    };
    let part = if !program.all(right) {
        Part::Lost
    } else if encoding::number(&record) == encoding && protection_of(&record).iter().all(right) {
        Part::Whole
    } else {
        Part::Unprotected
    };
    Inspected { record: Some(record), part }
}

/// Also tells whether all ranks have set `flag`; they do so only for what is whole.
fn gather_parts(ctx: &Ctx, own: Part, flag: bool) -> Result<(Vec<Part>, bool)> {
    const FLAGGED: u8 = 3;
    let code = match own {
        Part::Whole if flag => FLAGGED,
        Part::Whole => 0,
        Part::Unprotected => 1,
        Part::Lost => 2,
    };
    let all = ctx.world.all_gather(&[code])?;
    let decode = |bytes: &Vec<u8>| match bytes.first() {
        Some(0 | &FLAGGED) => Part::Whole,
        Some(1) => Part::Unprotected,
        _ => Part::Lost,
    };
    let all_flagged = all.iter().all(|bytes| bytes.first() == Some(&FLAGGED));
    Ok((all.iter().map(decode).collect(), all_flagged))
}

/// Plans the sets that have something to rebuild, in rounds of disjoint ones. The error is the
/// reason why a rank's files cannot come back.
pub(crate) fn plan_sets(
    facts: &Facts,
    parts: &[Part],
) -> std::result::Result<Vec<Vec<Vec<usize>>>, String> {
    let mut wanted: BTreeSet<&[usize]> = BTreeSet::new();
    let mut hopeless = Vec::new();
    for (rank, part) in parts.iter().enumerate().filter(|(_, part)| **part != Part::Whole) {
        match facts.sets.iter().find(|set| set.contains(&rank)) {
            Some(set) => drop(wanted.insert(set)),
            None if *part == Part::Lost => hopeless.push(rank),
            None => {}
        }
    }
    if !hopeless.is_empty() {
        let scheme = &facts.scheme;
        return Err(format!(
            "the files of {} are lost and {scheme} keeps no copy on other nodes",
            ranks_phrase(&hopeless)
        ));
    }
    let mut rounds: Vec<Vec<Vec<usize>>> = Vec::new();
    for set in wanted {
        let overlaps =
            |round: &Vec<Vec<usize>>| round.iter().flatten().any(|rank| set.contains(rank));
        match rounds.iter().position(|round| !overlaps(round)) {
            Some(free) => rounds[free].push(set.to_vec()),
            None => rounds.push(vec![set.to_vec()]),
        }
    }
    Ok(rounds)
}

/// Rebuilds the sets of one round, all at the same time. Collective over the world; the outcome is
/// that of this rank's set.
fn rebuild_round(
    ctx: &Ctx,
    case: &Case,
    round: &[Vec<usize>],
    own: &mut Inspected,
    look: Look,
) -> Result<()> {
    let me = ctx.world.rank();
    let mine = round.iter().position(|set| set.contains(&me));
    let color = mine.map_or(-1, |index| index as i64);
    let place = mine.and_then(|index| round[index].iter().position(|rank| *rank == me));
    let comm = ctx.world.split(color, place.unwrap_or(0) as i64)?;
    let (Some(comm), Some(index)) = (comm, mine) else { return Ok(()) };
    let world_ranks = round[index].clone();
    let set = RedundancySet {
        comm: comm.into(),
        hosts: world_ranks.iter().map(|rank| case.hosts[*rank].clone()).collect(),
        group_id: world_ranks.iter().copied().min().unwrap_or(me),
        failures: case.facts.failures,
        world_size: ctx.world.size(),
        piece_bytes: ctx.protection.piece_bytes(),
        world_ranks,
    };
    let keep = |record: &DatasetRecord| ctx.filemap.put_held(me, record.clone());
    let rebuilt = rebuild_member(ctx.layout, ctx.protection, case, &set, own, look, &keep)?;
    own.record = Some(rebuilt);
    Ok(())
}

/// Does the part of one member; `keep` makes its new record durable. Collective over the set.
pub(crate) fn rebuild_member(
    layout: &Layout,
    protection: &dyn Protect,
    case: &Case,
    set: &RedundancySet,
    own: &Inspected,
    look: Look,
    keep: &dyn Fn(&DatasetRecord) -> Result<()>,
) -> Result<DatasetRecord> {
    let (chosen, type_name) = (case.chosen, &case.facts.scheme);
    let known = own.record.as_ref();
    let store = layout.stand_in(known.map_or(&case.facts.store, store_of)).to_owned();
    let dir = known.map(|record| record.dir.clone());
    let dir = dir.unwrap_or_else(|| layout.dataset_dir(&store, chosen.id));
    // A rank that cannot even make a directory would leave the others waiting in the scheme.
    let ready = make_own_dir(&dir.join(OWN_FOLDER))
        .and_then(|()| protection.scheme(type_name).ok_or_else(|| unknown_scheme(type_name)));
    let scheme = agree(&*set.comm, ready)?;
    let survivor = Survivor {
        dir: dir.clone(),
        id: chosen.id,
        epoch: chosen.epoch,
        data: known.filter(|_| own.part != Part::Lost).map(member_data),
        protection: known
            .filter(|_| own.part == Part::Whole)
            .map(|record| Protection { files: protection_of(record), ..Protection::default() }),
        compared: look == Look::Content,
    };
    let (data, protection) = scheme.rebuild(set, &survivor)?;
    let finished = record_of(case, &data, &protection, &dir).and_then(|mut record| {
        record.descriptor.set_value("STORE", &store);
        record.descriptor.set_value("MEMBERS", ranks_text(&set.world_ranks));
        record.descriptor.set_value("ENCODING", case.facts.encoding);
        keep(&record)?;
        Ok(record)
    });
    agree(&*set.comm, finished)
}

fn record_of(
    case: &Case,
    data: &MemberData,
    protection: &Protection,
    dir: &Path,
) -> Result<DatasetRecord> {
    let parsed = match data.record.is_empty() {
        true => Some(bare_record(case, data)),
        false => DatasetRecord::from_tree(&data.record),
    };
    let mut record = parsed.ok_or_else(|| {
        Error::Unrecoverable("the neighbour's copy of a record cannot be read".into())
    })?;
    record.dir = dir.to_path_buf();
    // The neighbour's copy of the record was made before the checksums were known.
    record.files = data.files.clone();
    note_protection(&mut record, &protection.files);
    if !untouched::is_offered(&record) {
        untouched::offer(&mut record);
    }
    // Their content was compared with the recorded checksums: that of a file which was there before
    // the rebuild, that of a restored one on its way. Reading all of it once more cost a quarter of
    // a restart after a lost node.
    for file in record.files.iter().filter(|file| !file.on_prefix) {
        if !matches(dir, file, false) {
            return Err(Error::Unrecoverable(format!(
                "{} does not have its recorded size after the rebuild",
                file.name
            )));
        }
    }
    Ok(record)
}

/// The record of a rank whose neighbours keep no copy of it, as in version 1.1.
fn bare_record(case: &Case, data: &MemberData) -> DatasetRecord {
    let mut record = DatasetRecord {
        key: case.chosen.key.clone(),
        dataset_id: case.chosen.id,
        epoch: case.chosen.epoch,
        state: RecordedState::Prepared,
        expect: data.files.len() as u64,
        ..DatasetRecord::default()
    };
    record.descriptor.set_value("TYPE", &case.facts.scheme);
    record
}

fn members(record: &DatasetRecord) -> Vec<usize> {
    parse_ranks(record.descriptor.get_value("MEMBERS").unwrap_or_default())
}

/// Forgets records of ranks that have their files elsewhere now, and before them the data that this
/// node no longer needs. Collective.
fn release_leftovers(ctx: &Ctx, case: &Case) -> Result<()> {
    let chosen = case.chosen;
    let tidied = sweep::tidy_dataset(ctx, chosen.id);
    let me = ctx.world.rank();
    let same =
        |record: &DatasetRecord| (record.dataset_id, record.epoch) == (chosen.id, chosen.epoch);
    let held = ctx.filemap.held();
    let gone = held.iter().filter(|(owner, record)| *owner != me && same(record));
    let gone: Vec<_> = gone.map(|(owner, record)| (*owner, record.key.clone())).collect();
    agree(ctx.world, tidied.and_then(|()| ctx.filemap.remove_held(&gone)))
}
