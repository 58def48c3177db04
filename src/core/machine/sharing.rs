//! Other ranks, or children of this one, have to do with its files.

use std::collections::BTreeSet;

use super::matters::others::Contested;
use super::parts::Machine;
use super::state::{Deleted, LocalFile, NameFacts, OnPfs, Phase, Status};
use super::terms::{
    DatasetKey, FileRef, FileShare, Intent, Placed, Placement, Reason, UnsafeName, Why, Withdrawn,
    kind_hash, name_hash,
};

impl Machine {
    /// Takes a change of a file that another rank has written into the cached dataset `of`. That
    /// rank answers for its content, so the PFS, which has it by now, takes the change and all
    /// later files of the name.
    pub fn take_over(
        &mut self,
        file: &FileRef,
        of: &DatasetKey,
        intent: Intent,
        now_ms: u64,
    ) -> Placement {
        self.others.tell_begun(&self.facts, file);
        if self.facts.is_passive() || (intent.rewrites() && self.facts.target(file) != *of) {
            return self.write_open(file, intent, now_ms);
        }
        self.facts.tick(now_ms);
        self.watch.mark_unsafe(&mut self.facts, file, Why::Writers);
        self.others.tell_taken(&mut self.facts, file);
        Placement::Dataset(self.place(file, Some(Reason::Shared)))
    }

    /// Notes that a private copy of this rank is on the PFS, in the place of what was there.
    pub fn replaced_on_prefix(&mut self, key: &DatasetKey, name: &str) {
        let count = self.facts.agreement.count;
        if let Some(dataset) = self.facts.own_mut(key) {
            dataset.replaced.push((name.to_string(), count));
        }
    }

    /// Gives a file that a child of this rank changes or makes to the PFS, since nobody knows when
    /// it will be done. A complete dataset keeps its version.
    pub fn changed_by_child(&mut self, file: &FileRef, now_ms: u64) -> Vec<Withdrawn> {
        self.facts.tick(now_ms);
        self.others.tell_revived(&mut self.facts, file);
        self.deletions.revive(file.series, &file.name);
        let datasets = self.facts.series[file.series].datasets.iter();
        let sealed: Vec<bool> =
            datasets.map(|dataset| self.facts.status(&dataset.key) != Status::Open).collect();
        let datasets = self.facts.series[file.series].datasets.iter_mut();
        let mut withdrawn = Vec::new();
        for (dataset, sealed) in datasets.zip(sealed) {
            let Some(held) = dataset.files.get_mut(&file.name) else { continue };
            if sealed {
                held.share();
                held.deleted = Deleted::No;
                continue;
            }
            if dataset.explicit.is_some() {
                continue; // the program says by calls what is in it
            }
            dataset.files.remove(&file.name);
            dataset.abandoned.remove(&file.name);
            dataset.touch(now_ms);
            let revoke = std::mem::take(&mut dataset.prepared);
            withdrawn.push(Withdrawn { key: dataset.key.clone(), revoke });
        }
        self.others.tell_taken(&mut self.facts, file);
        withdrawn
    }

    /// Takes a change of a file that another rank of this node has put into a dataset in progress,
    /// or has added to one that is sealed: both write to it. That rank answers for it, unless
    /// [`Machine::answer_for`] follows; here it is known while it is open.
    pub fn join(&mut self, file: &FileRef, of: &DatasetKey, now_ms: u64) -> Placement {
        if self.facts.is_passive() || self.facts.status(of) == Status::Dropped {
            return self.take_over(file, of, Intent::UPDATE, now_ms);
        }
        Placement::Dataset(self.put_joined(file, of, now_ms))
    }

    fn put_joined(&mut self, file: &FileRef, of: &DatasetKey, now_ms: u64) -> Placed {
        self.facts.tick(now_ms);
        let mut placed = self.put(file, of.clone(), None);
        if let Some(held) = self.facts.file_mut(of, &file.name) {
            held.joined = !placed.is_on_prefix();
            placed.joined = held.joined;
        }
        placed
    }

    /// Lets a rank take part in a file of `of` that others have begun. If one of this node has,
    /// `near`, one of both answers for it, and knows that before it reports what it has.
    pub(crate) fn open_parted(
        &mut self,
        file: &FileRef,
        of: &DatasetKey,
        near: bool,
        now_ms: u64,
    ) -> Placed {
        if near {
            return self.put_joined(file, of, now_ms);
        }
        self.facts.tick(now_ms);
        self.put(file, of.clone(), None)
    }

    /// Notes that others have written a file of that name in the dataset, which is sealed: this
    /// rank makes it anew, and begins the next one, as they do.
    pub(crate) fn is_behind(&mut self, of: &DatasetKey, file: &FileRef) {
        if self.facts.config.series[file.series].has_id {
            return; // it goes with a file that tells which checkpoint it is of
        }
        let named = NameFacts::of(&file.name, &file.masked, file.temporary);
        let closed_before = Some(self.facts.agreement.count);
        let held = LocalFile { closed_before, ..LocalFile::new(named, None) };
        self.facts.local_mut(of).left.insert(file.name.clone(), held);
    }

    /// Notes that this rank answers for a file that it has joined: of the ranks of the node that
    /// write it the lowest does, so that it is the same one at each checkpoint.
    pub fn answer_for(&mut self, of: &DatasetKey, name: &str) {
        if let Some(held) = self.facts.file_mut(of, name) {
            held.joined = false;
        }
    }

    /// Notes that a lower rank of the node answers for this rank's file from now on. Gives the
    /// dataset in progress that has it; here it is known while it is open.
    pub fn lower_answers_for(&mut self, file: &FileRef) -> Option<DatasetKey> {
        let (key, standing) = self.facts.holder(file)?;
        if standing != Status::Open {
            return None;
        }
        let series = &mut self.facts.series[file.series];
        let held = series.find_mut(&key)?.files.get_mut(&file.name).filter(|held| !held.joined)?;
        held.joined = true;
        series.leave_joined(&key, &file.name);
        self.facts.agreement.changed(1);
        Some(key)
    }

    /// Notes that a child of this rank opens a file, too, that is open on it in the dataset `of`:
    /// one more to be closed.
    pub fn lent(&mut self, of: &DatasetKey, name: &str) {
        let file = self.facts.file_mut(of, name);
        if let Some(file) = file.filter(|file| file.open > 0) {
            file.open += 1;
        }
    }

    /// Notes that another rank has just deleted this file, so it was written before, although no
    /// sync point says so.
    pub(crate) fn deleted_just_now(&mut self, file: &FileRef) {
        self.facts.note_gone(file, true);
    }

    /// Notes that another rank of the node has just begun to write this file on the PFS: what this
    /// one has sealed of it is not flushed any more, and further writes go there. Returns the
    /// datasets in progress of which that is true.
    pub(crate) fn taken_just_now(&mut self, file: &FileRef) -> Vec<DatasetKey> {
        let mut in_progress = Vec::new();
        for dataset in &mut self.facts.series[file.series].datasets {
            let Some(held) = dataset.files.get_mut(&file.name) else { continue };
            if dataset.phase != Phase::Open {
                held.moved = true;
            } else if held.open == 0 && dataset.explicit.is_none() {
                (held.on_prefix, held.keeps_copy) = (Some(Reason::Shared), false);
                in_progress.push(dataset.key.clone());
            }
        }
        in_progress
    }

    /// Tells whether this rank answers for a file, with an id, of the dataset in progress that
    /// another rank of the node has just made, too: that one has not seen the file if the open
    /// of this one was still under way.
    pub(crate) fn answers_beside(&self, file: &FileRef) -> bool {
        let key = self.facts.target(file);
        let held = self.facts.file(&key, &file.name).filter(|_| file.id.is_some());
        let is_live = |held: &LocalFile| {
            !(held.joined || held.outlived || held.is_deleted()) && held.on_prefix.is_none()
        };
        self.facts.status(&key) == Status::Open && held.is_some_and(is_live)
    }

    /// Notes that another rank of the node has just made this file: no deletion of it stands, and
    /// what this rank has of it was taken away before. The dataset that has the new one goes on
    /// with that, and its key is returned; older ones keep what they have.
    pub(crate) fn made_just_now(&mut self, file: &FileRef) -> Option<DatasetKey> {
        let into = file.id.is_some().then(|| self.facts.target(file));
        self.deletions.revive(file.series, &file.name);
        self.others.note_made_near(file);
        let series = &mut self.facts.series[file.series];
        let (into, mut given_away) = (into?, None);
        for dataset in series.datasets.iter_mut().filter(|one| one.explicit.is_none()) {
            let goes_on = dataset.key == into;
            if goes_on {
                dataset.abandoned.remove(&file.name);
            }
            let Some(held) = dataset.files.get_mut(&file.name) else { continue };
            if goes_on {
                held.published = OnPfs::No; // the other rank may write to the file
            }
            if held.open > 0 || !(held.outlived || held.is_deleted()) {
                continue;
            }
            if !goes_on {
                held.delete();
                continue;
            }
            dataset.files.remove(&file.name);
            if dataset.phase == Phase::Sealed {
                dataset.phase = Phase::Open; // the other rank has opened it again
            }
            dataset.touch(self.facts.clock_ms);
            self.facts.agreement.changed(1);
            given_away = Some(into.clone());
        }
        given_away
    }

    pub(crate) fn made_elsewhere(&mut self, file: &FileRef) {
        self.deletions.revive(file.series, &file.name);
    }

    pub(crate) fn forget_near(&mut self) {
        self.others.forget_near();
    }

    /// Settles who keeps these `files`, because of which the seal of `key` has failed. The first
    /// rank keeps a file that all have alike, and the seal is tried again; else the dataset is
    /// given up. Later files of these names go to the PFS.
    pub fn settle_contested(&mut self, key: &DatasetKey, files: &[Contested]) {
        for Contested { file, ranks, spoiled } in files {
            let (name, bare) = (name_hash(&file.masked), file.masked == file.name);
            let nodes = &self.facts.config.nodes;
            let on_one_node = ranks.iter().all(|rank| nodes[*rank] == nodes[ranks[0]]);
            if spoiled.is_some() || !on_one_node {
                let kind = kind_hash(&file.masked);
                let mark = UnsafeName { name, kind, bare, why: Why::Writers };
                self.watch.note_unsafe(&mut self.facts, key.series, &mark);
                self.watch.part_no_more(&mut self.facts, key.series, [name, kind]);
                self.watch.find_marked(&self.facts, key.series);
            }
            let keeps = ranks[0] == self.facts.config.rank;
            let own = self.facts.own_mut(key).filter(|_| !keeps);
            match (spoiled, &mut self.conference) {
                (None, _) => {
                    own.into_iter().for_each(|own| own.leave(&file.name));
                }
                (Some(why), Some(conference)) => {
                    let vote = conference.votes.entry(key.clone()).or_default();
                    vote.invalid.get_or_insert_with(|| (ranks[0], why.clone()));
                }
                (Some(_), None) => {}
            }
        }
        self.facts.agreement.changed(1);
    }

    /// Returns why the file of so many bytes, which this rank has closed, is on the PFS, and what
    /// counts for this rank: what was `seen` of its writes, or all of it for the lowest of those
    /// that are known to write it.
    pub(crate) fn share_of(
        &self,
        key: &DatasetKey,
        name: &str,
        bytes: u64,
        seen: Option<FileShare>,
    ) -> Option<(Reason, FileShare)> {
        let file = self.facts.file(key, name)?;
        let writers = self.watch.shared()[key.series].together.get(&file.named.masked);
        let lowest = writers.and_then(BTreeSet::first);
        let answers = lowest.is_none_or(|lowest| *lowest >= self.facts.config.rank);
        let share = match seen {
            Some(seen) => FileShare { bytes: seen.bytes.min(bytes), ..seen },
            None if answers => FileShare { files: 1, bytes },
            None => FileShare::default(),
        };
        Some((file.on_prefix?, share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::terms::{Knowledge, MachineConfig, SeriesConfig};

    #[test]
    fn a_file_of_several_ranks_is_counted_once() {
        let known = |ranks: [usize; 2]| Knowledge {
            together: [(name_hash("ckpt/{id}/a"), ranks.into())].into(),
            ..Knowledge::default()
        };
        let (whole, nothing) = (FileShare { files: 1, bytes: 10 }, FileShare::default());
        let part = FileShare { files: 0, bytes: 40 };
        let own = FileShare { bytes: 10, ..part };
        // Who is known to write it, and what of this rank's, which is 1, was seen.
        let rows = [([1, 2], None, whole), ([0, 1], None, nothing), ([0, 1], Some(part), own)];
        for (ranks, seen, share) in rows {
            let config = MachineConfig::new(1, vec![0; 3], vec![SeriesConfig::new("ckpt", true)]);
            let mut machine = Machine::new(config, &[known(ranks)], 0);
            let file = FileRef {
                series: 0,
                id: Some("7".into()),
                name: "ckpt/7/a".into(),
                masked: "ckpt/{id}/a".into(),
                temporary: false,
            };
            let answer = machine.write_open(&file, Intent::REWRITE, 1);
            let Placement::Dataset(placed) = answer else { panic!("{answer:?}") };
            let counted = machine.share_of(&placed.key, "ckpt/7/a", 10, seen);
            assert_eq!(counted, Some((Reason::Watched, share)), "{ranks:?} {seen:?}");
        }
    }

    /// Else it went on in the cache with what the others brought to the PFS, and its bytes were
    /// lost without a word.
    #[test]
    fn a_rank_that_joined_in_a_file_without_id_knows_when_the_next_checkpoint_begins() {
        for has_id in [false, true] {
            let config = MachineConfig::new(1, vec![0; 2], vec![SeriesConfig::new("s", has_id)]);
            let mut machine = Machine::new(config, &[Knowledge::default()], 0);
            let (id, key) = (has_id.then(|| "7".to_string()), DatasetKey::new(0, "", 0));
            let key = if has_id { DatasetKey::new(0, "7", 0) } else { key };
            let (name, masked) = ("s".to_string(), "s".to_string());
            let file = FileRef { series: 0, id, name, masked, temporary: false };
            let placed = machine.put_joined(&file, &key, 1);
            assert_eq!(placed.key, key);
            machine.write_closed(&key, "s", 10, 2);
            assert!(machine.goes_on_in(&key, &file, false), "no collective since");
            machine.facts.agreement.count += 1;
            assert_eq!(machine.goes_on_in(&key, &file, false), has_id);
        }
    }
}
