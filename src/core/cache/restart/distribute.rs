//! At a restart, the files of a dataset go to the nodes where their owners run (the program flow,
//! `scr_distribute_files`). In each round a rank sends to one other or receives from one, so no
//! cycle of waiting can arise. A copy is recorded at its new place before anything is removed at
//! the old one (`recover.rs`). Nodes without room for that cannot exchange their ranks: such a
//! dataset is stranded ([`crate::cache::Withheld`]).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::decide::{Claim, Decision};
use crate::cache::Ctx;
use crate::cache::node::disk::{CHUNK_BYTES, has_all, make_own_dir};
use crate::cache::node::layout::store_of;
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::sealing::own_part::protection_of;
use crate::error::{Error, Result};
use crate::files::{join_relative, replace};
use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, FileContent, FileMeta};

/// First byte of each message of a file: more data, the end, or the sender could not read on.
const DATA: u8 = 0;
const END: u8 = 1;
const FAILED: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMove {
    pub from: usize,
    pub to: usize,
}

/// Plans who sends to whom, in rounds; the same on all ranks. `nodes[rank]` tells nodes apart. The
/// best copy is one with the redundancy files of `encoding`; of these, one that is in its place.
pub(super) fn plan(claims: &[&Claim], encoding: u64, nodes: &[usize]) -> Vec<Vec<FileMove>> {
    let mut of_owner: Vec<Vec<&Claim>> = vec![Vec::new(); nodes.len()];
    for claim in claims.iter().filter(|claim| claim.intact && claim.owner < nodes.len()) {
        of_owner[claim.owner].push(claim);
    }
    let mut rounds: Vec<Vec<FileMove>> = Vec::new();
    // The rounds in which a rank has something to do.
    let mut busy: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); nodes.len()];
    for (to, sources) in of_owner.iter().enumerate() {
        let value = |claim: &&&Claim| {
            let protected = claim.under(encoding).is_some_and(|encoding| encoding.protected);
            (protected, nodes[claim.holder] == nodes[to], Reverse(claim.holder))
        };
        let Some(from) = sources.iter().max_by_key(value).map(|claim| claim.holder) else {
            continue;
        };
        if nodes[from] == nodes[to] {
            continue; // There already.
        }
        let is_free = |round: &usize| !busy[from].contains(round) && !busy[to].contains(round);
        let round = (0..rounds.len()).find(is_free).unwrap_or(rounds.len());
        if round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[round].push(FileMove { from, to });
        busy[from].insert(round);
        busy[to].insert(round);
    }
    rounds
}

pub(super) struct NotMoved {
    pub why: String,
    pub no_room: bool,
}

pub(super) const ADVICE: &str = "make room there, or start the ranks on the nodes where they were";

/// Carries out the plan. A rank whose files do not come goes on without them, and returns why:
/// redundancy may still bring them back. Collective.
pub(super) fn distribute(
    ctx: &Ctx,
    chosen: &Decision,
    rounds: &[Vec<FileMove>],
) -> Result<Option<NotMoved>> {
    let me = ctx.world.rank();
    let mut trouble = None;
    for transfer in rounds.iter().flatten() {
        if transfer.from == me {
            send(ctx, chosen, transfer.to)?;
        } else if transfer.to == me {
            match receive(ctx, transfer.from)? {
                // Unrecorded files would be swept at the next start; redundancy then replaces them.
                Ok(record) => drop(ctx.filemap.put_held(me, record)),
                Err(error) => trouble = Some(not_moved(ctx, &error)),
            }
        }
    }
    Ok(trouble)
}

fn not_moved(ctx: &Ctx, error: &Error) -> NotMoved {
    let why = format!("rank {} cannot have its files on {}: {error}", ctx.world.rank(), ctx.host);
    NotMoved { why, no_room: error.is_no_room() }
}

fn send(ctx: &Ctx, chosen: &Decision, to: usize) -> Result<()> {
    let held = ctx.filemap.held();
    let found = held.iter().find(|(owner, record)| {
        *owner == to && (record.dataset_id, record.epoch) == (chosen.id, chosen.epoch)
    });
    let Some((_, record)) = found else {
        return ctx.world.send(&KvTree::new().encode(), to);
    };
    let dir = ctx.layout.data_dir(record);
    let mut there = record.clone();
    there.files = record.files.iter().map(FileMeta::as_copy).collect();
    ctx.world.send(&there.to_tree().encode(), to)?;
    for file in moving_files(record) {
        send_file(ctx, &dir, &file, to)?;
    }
    Ok(())
}

fn moving_files(record: &DatasetRecord) -> Vec<FileMeta> {
    let own = record.files.iter().filter(|file| !file.on_prefix).cloned();
    own.chain(protection_of(record)).collect()
}

fn send_file(ctx: &Ctx, dir: &Path, meta: &FileMeta, to: usize) -> Result<()> {
    let content = FileContent::of(dir, meta);
    let opened = content.and_then(|content| content.open().map(|file| (content, file)));
    let Ok((content, file)) = opened else { return ctx.world.send(&[FAILED], to) };
    let mut at = 0;
    while at < content.size() {
        let count = (content.size() - at).min(CHUNK_BYTES as u64) as usize;
        let mut message = vec![DATA; 1 + count];
        if content.read_exact_at(&file, &mut message[1..], at).is_err() {
            return ctx.world.send(&[FAILED], to);
        }
        ctx.world.send(&message, to)?;
        at += count as u64;
    }
    ctx.world.send(&[END], to)
}

/// The inner error says why the program's files did not all arrive right. A redundancy file that
/// did not arrive is made anew later.
fn receive(ctx: &Ctx, from: usize) -> Result<Result<DatasetRecord>> {
    let tree = KvTree::decode(&ctx.world.receive(from)?)?;
    let Some(mut record) = DatasetRecord::from_tree(&tree) else {
        return Ok(Err(Error::Remote(format!("rank {from} has no record of them any more"))));
    };
    let store = ctx.layout.stand_in(store_of(&record)).to_owned();
    record.descriptor.set_value("STORE", &store);
    let dir = ctx.layout.dataset_dir(&store, record.dataset_id);
    let programs = record.files.iter().filter(|file| !file.on_prefix).count();
    let mut arrived = Ok(());
    for (index, file) in moving_files(&record).iter().enumerate() {
        let outcome = receive_file(ctx, &dir, file, from)?;
        if index < programs {
            arrived = arrived.and(outcome);
        }
    }
    record.dir = dir;
    Ok(arrived.map(|()| record))
}

/// Takes all messages of a file whatever happens to it here, which the inner error says.
fn receive_file(ctx: &Ctx, dir: &Path, meta: &FileMeta, from: usize) -> Result<Result<()>> {
    let incoming = dir.join(OWN_FOLDER).join(format!("incoming.{}", ctx.world.rank()));
    let mut sink = make_own_dir(&dir.join(OWN_FOLDER)).and_then(|()| {
        File::create(&incoming).map_err(|e| Error::io("cannot create", &incoming, e))
    });
    loop {
        let message = ctx.world.receive(from)?;
        match message.split_first() {
            Some((&DATA, bytes)) => {
                let written = sink.as_mut().map(|file| file.write_all(bytes));
                if let Ok(Err(error)) = written {
                    sink = Err(Error::io("cannot write", &incoming, error));
                }
            }
            Some((&END, _)) => break,
            _ => {
                let unread = || Error::Remote(format!("rank {from} cannot read {}", meta.name));
                sink = sink.and_then(|_| Err(unread()));
                break;
            }
        }
    }
    let outcome = sink.and_then(|file| put_in_place(&file, &incoming, dir, meta));
    if outcome.is_err() {
        let _ = fs::remove_file(&incoming); // What stays is swept.
    }
    Ok(outcome)
}

fn put_in_place(file: &File, incoming: &Path, dir: &Path, meta: &FileMeta) -> Result<()> {
    let target = join_relative(dir, &meta.name)?;
    if !has_all(&FileContent::dense(incoming.to_path_buf(), meta.size), meta.crc32) {
        return Err(Error::corrupt(incoming, "size or checksum differ from the record"));
    }
    meta.give_to(file).map_err(|e| Error::io("cannot complete", incoming, e))?;
    if let Some(parent) = target.parent() {
        make_own_dir(parent)?;
    }
    replace(incoming, &target).map_err(|e| Error::io("cannot rename", incoming, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::DatasetRecord;

    fn claim(owner: usize, holder: usize, intact: bool) -> Claim {
        Claim { intact, ..Claim::new(owner, holder, &DatasetRecord::default()) }
    }

    #[test]
    fn only_moved_ranks_travel_and_nobody_is_busy_twice_in_a_round() {
        // Nodes {0,1}, {2,3}; ranks 0 and 2 have changed places, rank 1 stayed, 3's is broken.
        let claims = [claim(0, 2, true), claim(2, 0, true), claim(1, 1, true), claim(3, 3, false)];
        let rounds = plan(&claims.iter().collect::<Vec<_>>(), 0, &[0, 0, 2, 2]);
        let (first, second) = (FileMove { from: 2, to: 0 }, FileMove { from: 0, to: 2 });
        assert_eq!(rounds, [vec![first], vec![second]]);
    }

    #[test]
    fn the_plan_of_a_large_world_is_made_in_no_time() {
        // All ranks have moved to the next node; each claim is looked at once.
        const RANKS: usize = 1 << 16;
        let nodes: Vec<usize> = (0..RANKS).map(|rank| rank / 64 * 64).collect();
        let claims: Vec<Claim> =
            (0..RANKS).map(|owner| claim(owner, (owner + 64) % RANKS, true)).collect();
        let rounds = plan(&claims.iter().collect::<Vec<_>>(), 0, &nodes);
        assert_eq!(rounds.iter().map(Vec::len).sum::<usize>(), RANKS);
        assert!(rounds.len() <= 3, "{}", rounds.len());
    }

    #[test]
    fn a_copy_on_the_own_node_is_preferred_and_a_broken_one_is_no_copy() {
        let claims = [claim(0, 0, false), claim(0, 3, true), claim(1, 0, true), claim(1, 2, true)];
        let rounds = plan(&claims.iter().collect::<Vec<_>>(), 0, &[0, 0, 2, 2]);
        assert_eq!(rounds, [vec![FileMove { from: 3, to: 0 }]]);
    }
}
