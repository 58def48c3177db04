//! The program gives files and directories other names.

use super::parts::Machine;
use super::removing::Removal;
use super::state::{LocalDataset, NameFacts, Status};
use super::terms::{
    DatasetKey, FileRef, Intent, LeftBehind, Placement, Reason, Renamed, Why, name_hash,
};

impl Machine {
    /// Takes a rename by the program; at least one end matched a pattern. The new name counts as
    /// closed with `bytes` bytes; open descriptors go along. `keep`: why the file cannot be moved
    /// into the cache.
    pub fn renamed(
        &mut self,
        from: Option<&FileRef>,
        to: Option<&FileRef>,
        bytes: u64,
        keep: Option<Reason>,
        now_ms: u64,
    ) -> Renamed {
        self.facts.tick(now_ms);
        let open = from.map_or(0, |file| self.facts.open_count(file));
        let to = to.filter(|to| !self.facts.is_passive() && !self.logs.is_left_alone(to));
        // Where it was deleted before, that was to make room for this one.
        if let Some(to) = to {
            for dataset in &mut self.facts.series[to.series].datasets {
                dataset.left.remove(&to.name);
            }
        }
        let into = to.map(|to| self.rotations.target_of_rename(&self.facts, from, to));
        if let Some((from, to)) = from.zip(to) {
            self.learn_new_name(from, to);
        }
        from.into_iter().for_each(|from| self.note_renamed(from));
        let removal = into.as_ref().map_or(Removal::Away, Removal::Into);
        let deletion = from.map(|file| self.delete(file, removal));
        let placement = match to.zip(into) {
            Some((to, into)) => {
                // What would be there anyhow, or since a cache fails, says nothing of the program.
                let fails = self.facts.falls_back || self.facts.shared.fallen_back;
                let stays = self.stays_on_prefix(to);
                let spoils = keep.is_some() && stays.is_none() && !fails;
                if spoils && to.masked == to.name && self.facts.has_older(to) {
                    // Its older versions are gone: no roll-back is consistent.
                    self.watch.mark_unsafe(&mut self.facts, to, Why::Stays);
                }
                let keep = keep.map(|keep| stays.unwrap_or(keep));
                self.watch.note_rewrite(&self.facts, to, &into);
                let placed = self.put(to, into, keep);
                self.facts.note_anew(&placed.key, to, Intent::REWRITE);
                if open == 0 {
                    self.write_closed(&placed.key, &to.name, bytes, now_ms);
                } else if let Some(dataset) = self.facts.series[to.series].find_mut(&placed.key)
                    && let Some(file) = dataset.files.get_mut(&to.name)
                {
                    file.open += open - 1; // those of the replaced file will be closed, too
                }
                Placement::Dataset(placed)
            }
            None => Placement::Pass,
        };
        Renamed { from: deletion, to: placement }
    }

    /// If it is known who writes the old name, it is known of the new one. Without ids it must not
    /// be the one newer file on a PFS that has the others from an older checkpoint: if the cache is
    /// lost, that is all there is. Nor may it leave its old name there before the checkpoint that
    /// has it under the new one is safe.
    fn learn_new_name(&mut self, from: &FileRef, to: &FileRef) {
        let cached = |key: &DatasetKey| !self.facts.file_is_on_prefix(key, &from.name);
        let routing = self.facts.shared.series[from.series].routing;
        let known = self
            .facts
            .holder(from)
            .is_some_and(|(key, _)| cached(&key) || !self.watch.is_new(&self.facts, from));
        if known
            && routing.caches()
            && from.series == to.series
            && !self.facts.config.series[to.series].has_id
        {
            self.watch.learn_new_name(to);
        }
    }

    /// Without ids, ranks that write the file, but do not rename it, would go on with the older one
    /// of its name; and in the caches of other nodes that of the new name is in the way.
    fn note_renamed(&mut self, from: &FileRef) {
        let facts = &mut self.facts;
        let writers = self.watch.shared()[from.series].co_writers(name_hash(&from.masked));
        if writers.is_some() && !facts.config.series[from.series].has_id {
            self.watch.mark_unsafe(facts, from, Why::Stays);
        }
    }

    /// Gives this rank's file `old` of a dataset in progress the name `new`: some rank has renamed
    /// its directory. `on_prefix`: why the PFS has it, if it has. Returns whether its record must
    /// be revoked; `None`: there is no such file.
    pub fn moved(
        &mut self,
        key: &DatasetKey,
        old: &str,
        new: &FileRef,
        on_prefix: Option<Reason>,
        now_ms: u64,
    ) -> Option<bool> {
        self.facts.tick(now_ms);
        if self.facts.status(key) != Status::Open {
            return None;
        }
        let clock_ms = self.facts.clock_ms;
        let dataset = self.facts.own_mut(key)?;
        if dataset.files.get(old).is_none_or(|file| file.is_deleted()) {
            return None;
        }
        let mut file = dataset.files.remove(old)?;
        let named = NameFacts::of(&new.name, &new.masked, new.temporary);
        file.named = NameFacts { bare: file.named.bare, ..named };
        file.on_prefix = on_prefix;
        // What was written under the final name since the rename is newer.
        dataset.files.entry(new.name.clone()).or_insert(file);
        let revoke = std::mem::take(&mut dataset.prepared);
        dataset.touch(clock_ms);
        self.facts.agreement.changed(2);
        self.telling.note_name();
        Some(revoke)
    }

    /// Notes that all ranks are to hear at the next agreement that this one has renamed a
    /// directory.
    pub fn note_move(&mut self) {
        self.telling.note_move();
        self.facts.agreement.changed(2);
    }

    /// Finds the files that the program left behind: they wait for a name, but the next checkpoint
    /// has begun, or the run ends. Bring them to the PFS, then call [`Machine::withdrawn`] for
    /// each.
    pub fn left_behind(&self) -> Vec<LeftBehind> {
        let mut found = Vec::new();
        for (index, series) in self.facts.series.iter().enumerate() {
            for (at, dataset) in series.datasets.iter().enumerate() {
                let waiting = dataset.files.iter().filter(|(_, file)| file.is_waiting());
                if self.facts.status(&dataset.key) != Status::Open || !self.is_over(index, at) {
                    continue;
                }
                found.extend(waiting.map(|(name, file)| LeftBehind {
                    key: dataset.key.clone(),
                    name: name.clone(),
                    on_prefix: file.on_prefix.is_some(),
                }));
            }
        }
        found
    }

    fn is_over(&self, series: usize, at: usize) -> bool {
        let datasets = &self.facts.series[series].datasets;
        let later =
            |later: &LocalDataset| later.is_successor() && !self.facts.is_floating(&later.key);
        let shared = &self.facts.shared.series[series].datasets;
        let known = shared.iter().position(|known| known.key == datasets[at].key);
        self.facts.ending
            || datasets[at + 1..].iter().any(later)
            || known.is_some_and(|known| self.facts.is_followed(series, known))
    }

    pub fn withdrawn(&mut self, key: &DatasetKey, name: &str) {
        let clock_ms = self.facts.clock_ms;
        if let Some(dataset) = self.facts.own_mut(key)
            && dataset.files.remove(name).is_some()
        {
            dataset.touch(clock_ms);
            self.facts.agreement.changed(1);
            self.telling.note_name();
        }
    }

    pub(crate) fn learn_directory(&mut self, series: usize, template: &str) {
        let _ = self.learn_temporary(series, template); // those of files are many
        self.facts.shared.series[series].learned = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Intent, MachineConfig, Next, Placement, SeriesConfig, Step, SyncKind};
    use crate::streams::WORLD;

    fn file(id: &str, moved: bool) -> FileRef {
        let dir = if moved { id.to_string() } else { format!("{id}.temp") };
        FileRef {
            series: 0,
            id: Some(id.into()),
            name: format!("{dir}/x"),
            masked: "{id}/x".into(),
            temporary: !moved,
        }
    }

    fn write(machine: &mut Machine, file: &FileRef, now_ms: u64) -> DatasetKey {
        let placed = machine.write_open(file, Intent::REWRITE, now_ms);
        let Placement::Dataset(placed) = placed else { panic!("{placed:?}") };
        machine.write_closed(&placed.key, &file.name, 3, now_ms);
        placed.key
    }

    fn confer(machine: &mut Machine, now_ms: u64) -> Vec<Step> {
        let words = machine.sync_point(SyncKind::Constructor, now_ms).unwrap();
        if machine.agreed(WORLD, words) != Next::Confer {
            return Vec::new();
        }
        let report = machine.report(7, now_ms);
        assert!(machine.confer(&[report]));
        let mut steps = Vec::new();
        while let Some(step) = machine.next_step() {
            if let Step::Seal(plan) = &step {
                assert!(machine.seal_record(&plan.key));
            }
            let outcome = machine.vote(&step, crate::machine::Outcome::Done);
            machine.done(&step, outcome);
            steps.push(step);
        }
        steps
    }

    fn machine() -> Machine {
        let series = SeriesConfig { learn: false, ..SeriesConfig::new("ckpt", true) };
        Machine::new(MachineConfig::new(0, vec![0], vec![series]), &[], 0)
    }

    fn sealed(steps: &[Step]) -> Vec<&str> {
        let seals = steps.iter().filter_map(|step| match step {
            Step::Seal(plan) => Some(plan.key.id.as_str()),
            _ => None,
        });
        seals.collect()
    }

    #[test]
    fn a_dataset_waits_for_its_directory_to_get_its_name() {
        let mut machine = machine();
        let key = write(&mut machine, &file("10", false), 1);
        assert_eq!(sealed(&confer(&mut machine, 10_000)), [""; 0], "however long it takes");
        assert_eq!(machine.left_behind(), []);
        let old = file("10", false).name;
        let new = file("10", true);
        assert_eq!(machine.moved(&key, &old, &new, None, 10_001), Some(false));
        assert_eq!(machine.moved(&key, &old, &new, None, 10_001), None, "told twice");
        assert_eq!(sealed(&confer(&mut machine, 20_000)), ["10"]);
        let files: Vec<String> = machine.seal_files(&key).into_iter().map(|f| f.name).collect();
        assert_eq!(files, std::slice::from_ref(&new.name));
        // Its set of files is known by its final names: the next one is complete when it moves.
        let key = write(&mut machine, &file("20", false), 20_001);
        assert_eq!(sealed(&confer(&mut machine, 20_002)), [""; 0]);
        let old = file("20", false).name;
        machine.moved(&key, &old, &file("20", true), None, 20_003);
        machine.note_move();
        assert_eq!(sealed(&confer(&mut machine, 20_003)), ["20"]);
    }

    #[test]
    fn what_is_never_renamed_is_no_checkpoint() {
        let mut machine = machine();
        let key = write(&mut machine, &file("10", false), 1);
        confer(&mut machine, 2);
        write(&mut machine, &file("20", true), 3);
        let left = machine.left_behind();
        let name = file("10", false).name;
        assert_eq!(left, [LeftBehind { key: key.clone(), name: name.clone(), on_prefix: false }]);
        machine.withdrawn(&key, &name);
        let steps = confer(&mut machine, 10_000);
        assert_eq!(sealed(&steps), ["20"]);
        assert!(
            steps.iter().any(|step| matches!(step, Step::Evict { key: gone, .. } if *gone == key))
        );
        let key = write(&mut machine, &file("30", false), 10_001);
        assert_eq!(machine.left_behind(), []);
        machine.begin_end(10_002);
        assert_eq!(machine.left_behind().len(), 1, "of {key:?}");
    }
}
