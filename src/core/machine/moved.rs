//! Files that are written in a directory with a temporary name, which one rank renames when all
//! have written theirs: they belong to the dataset of the final name from the start, which is not
//! complete until the directory has that name.

use super::Machine;
use super::keys::{DatasetKey, FileRef};
use super::knowledge::{kind_hash, name_hash};
use super::local::{LocalDataset, Status};
use super::reason::Reason;
use super::visible::News;

/// A file that waits in a temporary directory, and will not get its final name any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    /// Its dataset.
    pub key: DatasetKey,
    /// Its temporary name.
    pub name: String,
    /// It lies on the PFS.
    pub on_prefix: bool,
}

impl Machine {
    /// Notes that a directory has been renamed, by whichever rank: this rank's file `old` of a
    /// dataset in progress is called `new` from now on. `on_prefix`: why the PFS has it, if it has.
    /// Gives whether its record must be revoked; `None`: there is no such file.
    pub fn moved(
        &mut self,
        key: &DatasetKey,
        old: &str,
        new: &FileRef,
        on_prefix: Option<Reason>,
        now_ms: u64,
    ) -> Option<bool> {
        self.tick(now_ms);
        if self.status(key) != Status::Open {
            return None;
        }
        let clock_ms = self.clock_ms;
        let dataset = self.series[key.series].find_mut(key)?;
        if dataset.files.get(old).is_none_or(|file| file.deleted) {
            return None;
        }
        let mut file = dataset.files.remove(old)?;
        file.masked = name_hash(&new.masked);
        file.kind = kind_hash(&new.masked);
        file.temporary = new.temporary;
        file.on_prefix = on_prefix;
        // What was written under the final name since the rename is newer.
        dataset.files.entry(new.name.clone()).or_insert(file);
        let revoke = std::mem::take(&mut dataset.prepared);
        dataset.touch(clock_ms);
        self.agreement.changed(2);
        self.note_name();
        Some(revoke)
    }

    /// Notes that all ranks are to hear at the next agreement that this one has renamed a
    /// directory.
    pub fn note_move(&mut self) {
        self.news = News::Moves;
        self.agreement.changed(2);
    }

    /// Finds this rank's files that wait in vain: the series' next checkpoint has begun, or the run
    /// ends. They are what the program left behind; bring them to the PFS, then call
    /// [`Machine::withdrawn`] for each.
    #[must_use]
    pub fn left_behind(&self) -> Vec<LeftBehind> {
        let mut found = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            for (at, dataset) in series.datasets.iter().enumerate() {
                let waiting = dataset.files.iter().filter(|(_, file)| file.is_waiting());
                if self.status(&dataset.key) != Status::Open || !self.is_over(index, at) {
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

    /// Nobody renames directories of this rank's dataset at `at` any more.
    fn is_over(&self, series: usize, at: usize) -> bool {
        let datasets = &self.series[series].datasets;
        let later = |later: &LocalDataset| later.is_successor() && !self.is_floating(&later.key);
        let shared = &self.shared.series[series].datasets;
        let known = shared.iter().position(|known| known.key == datasets[at].key);
        self.ending
            || datasets[at + 1..].iter().any(later)
            || known.is_some_and(|known| self.is_followed(series, known))
    }

    /// Takes the file out of its dataset: the PFS has it.
    pub fn withdrawn(&mut self, key: &DatasetKey, name: &str) {
        let clock_ms = self.clock_ms;
        if let Some(dataset) = self.series[key.series].find_mut(key)
            && dataset.files.remove(name).is_some()
        {
            dataset.touch(clock_ms);
            self.agreement.changed(1);
            self.note_name();
        }
    }

    /// Keeps how the program renames its directories, which all ranks have heard.
    pub fn learn_directory(&mut self, series: usize, template: &str) {
        let _ = self.learn_temporary(series, template); // those of files are many
        self.shared.series[series].learned = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Intent, MachineConfig, Next, Placement, SeriesConfig, Step, SyncKind};

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

    /// One conference; the steps that follow from it, all done.
    fn confer(machine: &mut Machine, now_ms: u64) -> Vec<Step> {
        let words = machine.sync_point(SyncKind::Constructor, now_ms).unwrap();
        if machine.agreed(words) != Next::Confer {
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
