//! At a restart: what is lost of one dataset is rebuilt by its scheme, and protected anew where the
//! placement of the ranks asks for it (001 `scr_reddesc_recover`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::agree::{agree, any};
use super::decide::{Claim, Decision, parse_ranks, ranks_phrase, ranks_text};
use super::disk::{make_own_dir, matches};
use super::layout::{OWN_FOLDER, store_of};
use super::seal::{member_data, note_protection, protect, protection_of};
use super::{Ctx, sweep};
use crate::error::{Error, Result};
use crate::records::DatasetRecord;
use crate::redundancy::{MemberData, Protection, RedundancySet, Survivor};

/// What is known of the ranks of the present launch.
pub(super) struct Placement {
    /// For each world rank the world rank of its node's leader.
    pub nodes: Vec<usize>,
    /// For each world rank its host.
    pub hosts: Vec<String>,
}

/// What has become of a dataset.
pub(super) struct Recovered {
    /// This rank's record.
    pub record: DatasetRecord,
    /// World ranks whose files were rebuilt.
    pub rebuilt: Vec<usize>,
    /// Whether all redundancy files were made anew.
    pub reencoded: bool,
    /// Why the dataset is whole but not protected, if so.
    pub unprotected: Option<String>,
}

/// The state of one rank's part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// The program's files are right, redundancy files are not all there.
    Unprotected,
    Lost,
}

/// Rebuilds what is lost. The outer error is one of communication; the inner sentence says why the
/// dataset cannot be had. Collective; both are the same on all ranks.
pub(super) fn recover(
    ctx: &Ctx,
    chosen: &Decision,
    claims: &[&Claim],
    placement: &Placement,
) -> Result<std::result::Result<Recovered, String>> {
    let (mut record, part) = inspect(ctx, chosen);
    let parts = gather_parts(ctx, part)?;
    let rebuilt: Vec<usize> = (0..parts.len()).filter(|rank| parts[*rank] == Part::Lost).collect();
    let rounds = match plan_sets(claims, &parts) {
        Ok(rounds) => rounds,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut must_encode = false;
    for round in &rounds {
        let needed = set_of(round, ctx.world.rank())
            .is_some_and(|set| set.iter().any(|rank| parts[*rank] == Part::Lost));
        let mut outcome = rebuild_round(ctx, chosen, claims, placement, round, &mut record, part);
        if !needed && matches!(&outcome, Err(error) if !matches!(error, Error::Comm(_))) {
            // Nothing but redundancy is lost, and that can be made anew from the files.
            must_encode = true;
            outcome = Ok(());
        }
        if let Some(reason) = common_reason(ctx, outcome)? {
            return Ok(Err(reason));
        }
    }
    let missing = any(ctx.world, record.is_none())?;
    let Some(record) = record.filter(|_| !missing) else {
        return Ok(Err("a rank still has no record of it after the rebuild".into()));
    };
    release_leftovers(ctx, chosen)?;
    let mut recovered = Recovered { record, rebuilt, reencoded: false, unprotected: None };
    must_encode |= !consistent(claims);
    must_encode |=
        !ctx.protection.is_spread(&recovered.record.descriptor, &members(&recovered.record));
    if any(ctx.world, must_encode)? {
        encode_again(ctx, &mut recovered)?;
    }
    Ok(Ok(recovered))
}

/// The first rank's sentence about why it failed, the same on all ranks; `None` if all went well.
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

/// This rank's record of the dataset, checked against the files.
fn inspect(ctx: &Ctx, chosen: &Decision) -> (Option<DatasetRecord>, Part) {
    let Some(record) = ctx.filemap.get_id(chosen.id).filter(|r| r.epoch == chosen.epoch) else {
        return (None, Part::Lost);
    };
    let dir = ctx.layout.data_dir(&record);
    let record = DatasetRecord { dir: dir.clone(), ..record };
    let mut program = record.files.iter().filter(|file| !file.on_prefix);
    let part = if !program.all(|file| matches(&dir.join(&file.name), file, true)) {
        Part::Lost
    } else if protection_of(&record).iter().all(|file| matches(&dir.join(&file.name), file, true)) {
        Part::Whole
    } else {
        Part::Unprotected
    };
    (Some(record), part)
}

fn gather_parts(ctx: &Ctx, own: Part) -> Result<Vec<Part>> {
    let code = match own {
        Part::Whole => 0,
        Part::Unprotected => 1,
        Part::Lost => 2,
    };
    let all = ctx.world.all_gather(&[code])?;
    let decode = |bytes: &Vec<u8>| match bytes.first() {
        Some(0) => Part::Whole,
        Some(1) => Part::Unprotected,
        _ => Part::Lost,
    };
    Ok(all.iter().map(decode).collect())
}

/// The sets that have something to rebuild, in rounds of disjoint ones. Pure. The error is the
/// reason why a rank's files cannot come back.
fn plan_sets(
    claims: &[&Claim],
    parts: &[Part],
) -> std::result::Result<Vec<Vec<Vec<usize>>>, String> {
    let mut votes: BTreeMap<&[usize], usize> = BTreeMap::new();
    for claim in claims {
        *votes.entry(&claim.set).or_default() += 1;
    }
    let mut wanted: BTreeSet<&[usize]> = BTreeSet::new();
    let mut hopeless = Vec::new();
    for (rank, part) in parts.iter().enumerate().filter(|(_, part)| **part != Part::Whole) {
        // An interrupted re-encoding leaves two sets for a rank; either has what it needs.
        let candidates = votes.iter().filter(|(set, _)| set.contains(&rank) && set.len() > 1);
        match candidates.max_by_key(|(_, votes)| **votes) {
            Some((set, _)) => drop(wanted.insert(set)),
            None if *part == Part::Lost => hopeless.push(rank),
            None => {}
        }
    }
    if !hopeless.is_empty() {
        let scheme = claims.first().map_or("SINGLE", |claim| &claim.scheme);
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

fn set_of(round: &[Vec<usize>], rank: usize) -> Option<&Vec<usize>> {
    round.iter().find(|set| set.contains(&rank))
}

/// Rebuilds the sets of one round, all at the same time. Collective over the world; the outcome is
/// that of this rank's set.
fn rebuild_round(
    ctx: &Ctx,
    chosen: &Decision,
    claims: &[&Claim],
    placement: &Placement,
    round: &[Vec<usize>],
    record: &mut Option<DatasetRecord>,
    part: Part,
) -> Result<()> {
    let me = ctx.world.rank();
    let mine = round.iter().position(|set| set.contains(&me));
    let color = mine.map_or(-1, |index| index as i64);
    let place = mine.and_then(|index| round[index].iter().position(|rank| *rank == me));
    let comm = ctx.world.split(color, place.unwrap_or(0) as i64)?;
    let (Some(comm), Some(index)) = (comm, mine) else { return Ok(()) };
    let world_ranks = round[index].clone();
    let set = RedundancySet {
        comm,
        hosts: world_ranks.iter().map(|rank| placement.hosts[*rank].clone()).collect(),
        group_id: world_ranks.iter().copied().min().unwrap_or(me),
        world_size: ctx.world.size(),
        world_ranks,
    };
    rebuild_member(ctx, chosen, claims, &set, record, part)
}

fn rebuild_member(
    ctx: &Ctx,
    chosen: &Decision,
    claims: &[&Claim],
    set: &RedundancySet,
    record: &mut Option<DatasetRecord>,
    part: Part,
) -> Result<()> {
    let first = claims.first();
    let (type_name, store) = first.map_or(("", ""), |claim| (&claim.scheme, &claim.store));
    let store = record.as_ref().map_or(store, store_of).to_owned();
    let known = record.as_ref().map(|record| record.dir.clone());
    let dir = known.unwrap_or_else(|| ctx.layout.dataset_dir(&store, chosen.id));
    // A rank that cannot even make a directory would leave the others waiting in the scheme.
    let ready = make_own_dir(&dir.join(OWN_FOLDER)).and_then(|()| {
        let unknown = || Error::Other(format!("no redundancy scheme is called \"{type_name}\""));
        ctx.protection.scheme(type_name).ok_or_else(unknown)
    });
    let scheme = agree(&*set.comm, ready)?;
    let own_set = record.as_ref().is_some_and(|record| members(record) == set.world_ranks);
    let survivor = Survivor {
        dir: dir.clone(),
        id: chosen.id,
        epoch: chosen.epoch,
        data: record.as_ref().filter(|_| part != Part::Lost).map(member_data),
        protection: record
            .as_ref()
            .filter(|_| part == Part::Whole && own_set)
            .map(|record| Protection { files: protection_of(record), ..Protection::default() }),
    };
    let (data, protection) = scheme.rebuild(set, &survivor)?;
    let finished = finish_member(ctx, &data, &protection, set, &dir, &store);
    *record = Some(agree(&*set.comm, finished)?);
    Ok(())
}

/// Checks what came back and records it.
fn finish_member(
    ctx: &Ctx,
    data: &MemberData,
    protection: &Protection,
    set: &RedundancySet,
    dir: &Path,
    store: &str,
) -> Result<DatasetRecord> {
    let parsed = DatasetRecord::from_tree(&data.record);
    let mut record = parsed.ok_or_else(|| {
        Error::Unrecoverable("the neighbour's copy of a record cannot be read".into())
    })?;
    record.dir = dir.to_path_buf();
    // The neighbour's copy of the record was made before the checksums were known.
    record.files = data.files.clone();
    record.descriptor.set_value("STORE", store);
    record.descriptor.set_value("MEMBERS", ranks_text(&set.world_ranks));
    note_protection(&mut record, protection);
    for file in record.files.iter().filter(|file| !file.on_prefix) {
        if !matches(&dir.join(&file.name), file, true) {
            return Err(Error::Unrecoverable(format!(
                "{} does not have its recorded size and checksum after the rebuild",
                file.name
            )));
        }
    }
    ctx.filemap.put_held(ctx.world.rank(), record.clone())?;
    Ok(record)
}

/// World ranks of a record's redundancy set.
fn members(record: &DatasetRecord) -> Vec<usize> {
    parse_ranks(record.descriptor.get_value("MEMBERS").unwrap_or_default())
}

/// Whether all members of each set name the same set. Pure.
fn consistent(claims: &[&Claim]) -> bool {
    let sets: BTreeMap<usize, &Vec<usize>> = claims.iter().map(|c| (c.owner, &c.set)).collect();
    claims.iter().all(|claim| {
        claim.set.iter().all(|member| sets.get(member).is_none_or(|set| **set == claim.set))
    })
}

/// Forgets records of ranks that now have their files elsewhere, and removes what this node no
/// longer needs of the dataset. Data first, record after. Collective.
fn release_leftovers(ctx: &Ctx, chosen: &Decision) -> Result<()> {
    agree(ctx.world, sweep::tidy_dataset(ctx, chosen.id))?;
    let me = ctx.world.rank();
    let same =
        |record: &DatasetRecord| (record.dataset_id, record.epoch) == (chosen.id, chosen.epoch);
    let held = ctx.filemap.held();
    let gone = held.iter().filter(|(owner, record)| *owner != me && same(record));
    let gone: Vec<_> = gone.map(|(owner, record)| (*owner, record.key.clone())).collect();
    agree(ctx.world, ctx.filemap.remove_held(&gone))
}

/// Chooses sets on the present placement and encodes. If that fails the dataset is still whole, only
/// not protected. Collective.
fn encode_again(ctx: &Ctx, recovered: &mut Recovered) -> Result<()> {
    match encode_on_present_sets(ctx, &recovered.record) {
        Ok(record) => {
            recovered.record = record;
            recovered.reencoded = true;
            Ok(())
        }
        Err(Error::Comm(what)) => Err(Error::Comm(what)),
        Err(reason) => {
            recovered.unprotected = Some(reason.to_string());
            Ok(())
        }
    }
}

/// The old redundancy files stay until the new ones are recorded on all ranks; the final sweep
/// removes them then.
fn encode_on_present_sets(ctx: &Ctx, old: &DatasetRecord) -> Result<DatasetRecord> {
    let mut wish = old.descriptor.clone();
    wish.remove("OWN");
    wish.remove("MEMBERS");
    let (set, descriptor) = agree(ctx.world, ctx.protection.choose(&wish))?;
    let mut record = DatasetRecord { descriptor, ..old.clone() };
    record.descriptor.set_value("STORE", store_of(old));
    record.descriptor.set_value("MEMBERS", ranks_text(&set.world_ranks));
    let protection = protect(ctx, &set, &record)?;
    note_protection(&mut record, &protection);
    agree(ctx.world, ctx.filemap.put_held(ctx.world.rank(), record.clone()))?;
    Ok(record)
}
