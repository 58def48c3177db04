//! The program's file operations on one rank, and what the shim and the engine do at each.

use scr_core::machine::{DatasetKey, Deletion, FileRef, Intent, Placed, Placement, Reason};

use super::Fault;
use super::cluster::{Content, Record, Stage};
use super::job::{Checked, Moment, OpenFile, Sim, trace};
use super::series::{series_of, temporary};
use super::style::Op;

impl Sim {
    pub fn file_op(&mut self, rank: usize, op: Op) -> Checked {
        match op {
            Op::Write(file) => {
                let creates = !self.ranks[rank].sees.contains_key(&file.name);
                self.open(rank, &file, Intent { creates, ..Intent::REWRITE });
            }
            Op::Update(file) => {
                let creates = !self.ranks[rank].sees.contains_key(&file.name);
                self.open(rank, &file, Intent { creates, ..Intent::UPDATE });
            }
            Op::Close(name, draft) => {
                self.close(rank, &name, if draft { Stage::Draft } else { Stage::Final });
            }
            Op::WriteAside { file, matched } => self.write_aside(rank, &file, matched),
            Op::Delete(file) => self.delete(rank, &file),
            Op::Move { series, step } => self.move_dir(rank, series, step),
            _ => {}
        }
        Ok(())
    }

    fn step_of(&self, rank: usize) -> u32 {
        self.ranks[rank].next_step - 1
    }

    /// The program writes that, whatever becomes of it.
    fn write(&mut self, rank: usize, name: &str, content: Content) {
        self.ranks[rank].sees.insert(name.to_string(), content);
        self.truth[series_of(name)].written.insert(name.to_string(), content);
    }

    fn open(&mut self, rank: usize, file: &FileRef, intent: Intent) {
        let now_ms = self.clock_ms;
        let torn = self.content(self.step_of(rank), Stage::Torn);
        self.write(rank, &file.name, torn);
        let ignores = self.fault == Some(Fault::IgnoreNames);
        let file = &FileRef { temporary: file.temporary && !ignores, ..file.clone() };
        let placement = self.ranks[rank].machine.write_open(file, intent, now_ms);
        self.opened(rank, file, placement);
    }

    fn opened(&mut self, rank: usize, file: &FileRef, placement: Placement) {
        let now_ms = self.clock_ms;
        let torn = self.content(self.step_of(rank), Stage::Torn);
        trace!(self, "{now_ms} r{rank} opens {}: {placement:?}", file.name);
        let open = match placement {
            Placement::Pass => {
                self.cluster.pfs.insert(file.name.clone(), torn);
                OpenFile::Passed
            }
            Placement::CopyUp { .. } => OpenFile::Shadow(file.clone()),
            Placement::Dataset(placed) => {
                self.take_place(rank, &placed);
                self.store(rank, &placed.key, placed.is_on_prefix(), &file.name, torn);
                {
                    let on_prefix = placed.is_on_prefix();
                    OpenFile::Placed { key: placed.key, on_prefix }
                }
            }
        };
        self.ranks[rank].open.insert(file.name.clone(), open);
    }

    /// The durable part of a placement.
    fn take_place(&mut self, rank: usize, placed: &Placed) {
        if placed.revoke {
            self.moment(rank, Moment::Revoked);
        }
        let skip_revoke = self.fault == Some(Fault::SkipRevoke);
        let part = (rank, placed.key.clone());
        let records = &mut self.cluster.node(rank).records;
        if placed.begin && !records.contains_key(&part) {
            records.insert(part.clone(), Record::open());
            self.cluster.written(rank);
        }
        let records = &mut self.cluster.node(rank).records;
        if let Some(record) = records.get_mut(&part).filter(|_| placed.revoke && !skip_revoke) {
            record.prepared = false;
            self.cluster.written(rank);
        }
    }

    fn store(&mut self, rank: usize, key: &DatasetKey, prefix: bool, name: &str, content: Content) {
        if prefix {
            self.truth[key.series].in_place = true;
            self.cluster.pfs.insert(name.to_string(), content);
        } else {
            let files = self.cluster.node(rank).files.entry((rank, key.clone())).or_default();
            files.insert(name.to_string(), content);
        }
    }

    fn close(&mut self, rank: usize, name: &str, stage: Stage) {
        let now_ms = self.clock_ms;
        let whole = self.content(self.step_of(rank), stage);
        self.write(rank, name, whole);
        trace!(self, "{now_ms} r{rank} closes {name}");
        match self.ranks[rank].open.remove(name) {
            Some(OpenFile::Placed { key, on_prefix }) => {
                self.store(rank, &key, on_prefix, name, whole);
                self.ranks[rank].machine.write_closed(&key, name, 1, now_ms);
            }
            Some(OpenFile::Shadow(file)) => {
                let machine = &mut self.ranks[rank].machine;
                let placement = machine.copy_up_closed(&file, true, now_ms);
                if let Placement::Dataset(placed) = placement {
                    self.take_place(rank, &placed);
                    self.store(rank, &placed.key, placed.is_on_prefix(), name, whole);
                    self.ranks[rank].machine.write_closed(&placed.key, name, 1, now_ms);
                } else {
                    self.cluster.pfs.insert(name.to_string(), whole);
                }
            }
            Some(OpenFile::Passed) => {
                self.cluster.pfs.insert(name.to_string(), whole);
            }
            None => {}
        }
    }

    fn write_aside(&mut self, rank: usize, file: &FileRef, matched: bool) {
        let temporary = temporary(file);
        let now_ms = self.clock_ms;
        if matched {
            let torn = self.content(self.step_of(rank), Stage::Torn);
            self.write(rank, &temporary.name, torn);
            let machine = &mut self.ranks[rank].machine;
            let placement = machine.write_open(&temporary, Intent::REWRITE, now_ms);
            self.opened(rank, &temporary, placement);
            self.close(rank, &temporary.name, Stage::Final);
            self.ranks[rank].sees.remove(&temporary.name);
        }
        let whole = self.content(self.step_of(rank), Stage::Final);
        let machine = &mut self.ranks[rank].machine;
        let from = matched.then_some(&temporary);
        let keep = (!matched).then_some(Reason::FallenBack);
        let renamed = machine.renamed(from, Some(file), 1, keep, now_ms);
        trace!(self, "{now_ms} r{rank} renames to {}: {renamed:?}", file.name);
        if let Some(deletion) = renamed.from {
            self.remove(rank, &temporary.name, deletion);
        }
        match renamed.to {
            Placement::Dataset(placed) => {
                self.take_place(rank, &placed);
                self.store(rank, &placed.key, placed.is_on_prefix(), &file.name, whole);
            }
            _ => {
                self.cluster.pfs.insert(file.name.clone(), whole);
            }
        }
        self.write(rank, &file.name, whole);
    }

    pub fn delete(&mut self, rank: usize, file: &FileRef) {
        let Some(seen) = self.ranks[rank].sees.remove(&file.name) else { return };
        self.truth[file.series].deleted.insert(file.name.clone());
        if self.style.series[file.series].is_discarded(&file.name) {
            self.truth[file.series].discarded.insert(file.name.clone(), seen);
        }
        let now_ms = self.clock_ms;
        let mut deletion = self.ranks[rank].machine.deleted(file, now_ms);
        trace!(self, "{now_ms} r{rank} deletes {}: {deletion:?}", file.name);
        if self.fault == Some(Fault::DeleteAtOnce) {
            deletion = Deletion::Now;
            for files in self.cluster.node(rank).files.values_mut() {
                files.remove(&file.name);
            }
        }
        self.remove(rank, &file.name, deletion);
    }

    fn remove(&mut self, rank: usize, name: &str, deletion: Deletion) {
        if deletion == Deletion::Deferred {
            return;
        }
        // The newest dataset in progress that holds it; sealed ones keep theirs.
        let node = self.cluster.node(rank);
        let holders = node.files.iter_mut().filter(|((owner, _), _)| *owner == rank);
        for ((_, key), files) in holders {
            let part = (rank, key.clone());
            let record = node.records.get_mut(&part);
            let Some(record) = record else { continue };
            if deletion == Deletion::NowAfterRevoke && files.contains_key(name) {
                record.prepared = false;
            }
            if !record.prepared {
                files.remove(name);
            }
        }
        self.cluster.pfs.remove(name);
    }
}
