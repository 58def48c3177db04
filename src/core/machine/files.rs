//! Local events: what the program does with its files, and what that means for the datasets.
//!
//! Nothing here communicates or waits; the answers follow from what this rank knows.

use super::Machine;
use super::keys::{DatasetKey, FileRef, Intent, Placed, Placement};
use super::knowledge::{kind_hash, name_hash};
use super::local::{LocalDataset, LocalFile, Phase, Status};
use super::reason::Reason;
use super::shared::DatasetState;

impl Machine {
    /// Decides where `file` goes, which the program opens for writing. The caller acts on the
    /// answer before the open goes on.
    pub fn write_open(&mut self, file: &FileRef, intent: Intent, now_ms: u64) -> Placement {
        self.tick(now_ms);
        if self.is_passive() {
            return self.write_open_passive(file, intent);
        }
        if self.is_left_alone(file) {
            return Placement::Pass;
        }
        self.expect_append(file, intent);
        if intent.rewrites() {
            let placed = self.place(file, None);
            self.note_anew(&placed.key, file, intent.truncates);
            return Placement::Dataset(placed);
        }
        match self.holder(file) {
            Some((key, Status::Open)) if !self.is_changed_again(&key, file, intent) => {
                Placement::Dataset(self.put(file, key, None))
            }
            Some((key, status))
                if !self.file_is_on_prefix(&key, &file.name)
                    || (status != Status::Open && self.stays_on_prefix(file).is_none()) =>
            {
                Placement::CopyUp { from: key }
            }
            // Only the PFS has it: it is changed there, as it would be without us.
            Some(_) | None => Placement::Dataset(self.place(file, Some(Reason::Follows))),
        }
    }

    /// The PFS takes everything; what the cache still holds under that name is out of date then.
    fn write_open_passive(&mut self, file: &FileRef, intent: Intent) -> Placement {
        if !intent.rewrites()
            && let Some((from, _)) = self.holder(file)
            && !self.file_is_on_prefix(&from, &file.name)
        {
            return Placement::CopyUp { from };
        }
        for dataset in &mut self.series[file.series].datasets {
            if let Some(held) = dataset.files.get_mut(&file.name) {
                held.deleted = true;
            }
        }
        Placement::Pass
    }

    /// Decides what becomes of a private copy ([`Placement::CopyUp`]) whose last descriptor was
    /// closed. `Pass`: discard the copy if it is unchanged, else write it to the PFS. Otherwise it
    /// becomes the file's content in that dataset, opened and to be closed as by
    /// [`Machine::write_open`].
    pub fn copy_up_closed(&mut self, file: &FileRef, changed: bool, now_ms: u64) -> Placement {
        self.tick(now_ms);
        if !changed {
            return Placement::Pass;
        }
        if self.is_passive() {
            return self.write_open_passive(file, Intent::REWRITE);
        }
        Placement::Dataset(self.place(file, None))
    }

    /// Notes that the open was not made: nothing was written.
    pub fn open_failed(&mut self, key: &DatasetKey, name: &str, now_ms: u64) {
        self.tick(now_ms);
        let Some(dataset) = self.series[key.series].find_mut(key) else { return };
        let Some(file) = dataset.files.get_mut(name) else { return };
        file.open = file.open.saturating_sub(1);
        if file.open == 0 && file.closed_before.is_none() {
            dataset.files.remove(name);
        }
        dataset.touch(now_ms);
        self.agreement.changed(1);
    }

    /// Notes that the open failed, on the PFS as well: without this file the dataset is not whole,
    /// unless the program opens it after all.
    pub fn open_refused(&mut self, key: &DatasetKey, name: &str, reason: &str, now_ms: u64) {
        self.open_failed(key, name, now_ms);
        if let Some(dataset) = self.series[key.series].find_mut(key) {
            dataset.refused.insert(name.to_string(), reason.to_string());
        }
    }

    /// Notes that a file was closed by its last writer; it has `bytes` bytes.
    pub fn write_closed(&mut self, key: &DatasetKey, name: &str, bytes: u64, now_ms: u64) {
        self.tick(now_ms);
        let count = self.agreement.count;
        let series = &mut self.series[key.series];
        let Some(dataset) = series.find_mut(key) else { return };
        dataset.touch(now_ms);
        if let Some(file) = dataset.files.get_mut(name) {
            file.open = file.open.saturating_sub(1);
            file.bytes = bytes;
            file.closed_ms = now_ms;
            file.closed_before = Some(count + 1);
            let masked = file.masked;
            if file.on_prefix.is_none() {
                series.unheard.entry(name.to_string()).or_insert(now_ms);
            }
            let largest = series.sizes.entry(masked).or_default();
            *largest = bytes.max(*largest);
        }
        series.leave_joined(key, name);
        self.agreement.changed(1);
        self.note_name();
        self.note_append(key, name, bytes);
    }

    /// Notes that a write, truncate, fsync or close failed, or the store was full: the dataset is
    /// invalid.
    pub fn failed(&mut self, key: &DatasetKey, reason: &str, now_ms: u64) {
        self.tick(now_ms);
        if let Some(dataset) = self.series[key.series].find_mut(key) {
            dataset.invalid.get_or_insert_with(|| reason.to_string());
            self.agreement.changed(1);
        }
    }

    /// Remembers a temporary-name template (text of `patterns::temporary`). Where there are too
    /// many, the last one gives way, and is returned.
    pub fn learn_temporary(&mut self, series: usize, template: &str) -> Option<String> {
        const TEMPLATES_MAX: usize = 16;
        // A program whose names are never alike would have all stored anew at each checkpoint.
        const STORED_AT_ONCE: usize = 4;
        let local = &mut self.series[series];
        let known = &mut local.temporaries;
        if known.iter().any(|text| text == template) {
            return None;
        }
        let last = if known.len() < TEMPLATES_MAX { None } else { known.pop() };
        known.push(template.to_string());
        local.news.learned |= known.len() <= STORED_AT_ONCE;
        last
    }

    /// Tells whether the dataset is not sealed yet, as this rank must treat it.
    #[must_use]
    pub fn is_in_progress(&self, key: &DatasetKey) -> bool {
        self.status(key) == Status::Open
    }

    /// Tells how far the dataset is, as this rank must treat it.
    pub(super) fn status(&self, key: &DatasetKey) -> Status {
        let local = self.series[key.series].find(key).map(|dataset| dataset.phase);
        let shared = self.shared.find(key).map(|dataset| dataset.state);
        match (local, shared) {
            (Some(Phase::Dropped), _) | (_, Some(DatasetState::Dropped)) => Status::Dropped,
            (Some(Phase::Locked | Phase::Voted { confirms: true }), _)
            | (_, Some(DatasetState::Confirmed)) => Status::Confirmed,
            (Some(Phase::Voted { .. }), _) => Status::Provisional,
            (Some(Phase::Sealed), Some(DatasetState::Provisional)) => Status::Provisional,
            _ => Status::Open,
        }
    }

    /// Finds the newest generation of `(series, id)` that anyone knows of.
    pub(super) fn newest(&self, series: usize, id: &str) -> Option<DatasetKey> {
        let local = self.series[series].datasets.iter().map(|dataset| &dataset.key);
        let shared = self.shared.series[series].datasets.iter().map(|dataset| &dataset.key);
        local.chain(shared).filter(|key| key.id == id).max_by_key(|key| key.generation).cloned()
    }

    /// Finds the newest dataset on this rank in which the program sees `file`, with its status.
    pub(super) fn holder(&self, file: &FileRef) -> Option<(DatasetKey, Status)> {
        let datasets = self.series[file.series].datasets.iter().rev();
        let mut holders = datasets.filter(|dataset| dataset.holds(&file.name));
        holders.next().map(|dataset| (dataset.key.clone(), self.status(&dataset.key)))
    }

    pub(super) fn file_is_on_prefix(&self, key: &DatasetKey, name: &str) -> bool {
        let dataset = self.series[key.series].find(key);
        dataset
            .and_then(|dataset| dataset.files.get(name))
            .is_some_and(|file| file.on_prefix.is_some())
    }

    /// Tells whether this rank has the file open for writing in the cache: a further descriptor is
    /// to be on that file.
    pub(super) fn is_open_in_cache(&self, key: &DatasetKey, name: &str) -> bool {
        let dataset = self.series[key.series].find(key);
        let file = dataset.and_then(|dataset| dataset.files.get(name));
        file.is_some_and(|file| file.open > 0 && file.on_prefix.is_none() && !file.deleted)
    }

    /// Tells which dataset a change of `file` belongs to.
    pub(super) fn target(&self, file: &FileRef) -> DatasetKey {
        let series = file.series;
        let has_id = self.config.series[series].has_id;
        let id = match &file.id {
            Some(id) => id.as_str(),
            None if has_id => return self.companion_target(file),
            None => "",
        };
        let Some(newest) = self.newest(series, id) else {
            return DatasetKey::new(series, id, self.series[series].after_evicted(id));
        };
        let next = DatasetKey::new(series, id, newest.generation + 1);
        let again = !has_id && self.written_before(&newest, file);
        if self.shared.find(&newest).is_some_and(|dataset| dataset.restored) {
            return next; // what the restart found stays as it was, and older than what follows
        }
        match self.status(&newest) {
            Status::Open | Status::Provisional if again => next,
            Status::Open | Status::Provisional => newest,
            Status::Confirmed | Status::Dropped => next,
        }
    }

    /// Tells whether the file was written and closed in this dataset, with a sync point since: the
    /// program starts its next checkpoint when it changes the file again.
    pub(super) fn written_before(&self, key: &DatasetKey, file: &FileRef) -> bool {
        let dataset = self.series[key.series].find(key);
        let held = dataset.and_then(|dataset| dataset.files.get(&file.name));
        held.is_some_and(|file| file.is_past(self.agreement.count))
    }

    /// Tells whether this rank has written to a file with an id of this dataset since the last sync
    /// point: the program makes that checkpoint anew, with what lies beside it.
    fn goes_on_now(&self, key: &DatasetKey) -> bool {
        let own = self.series[key.series].find(key);
        let written = |held: &LocalFile| !held.bare && !held.is_past(self.agreement.count);
        own.is_some_and(|own| own.files.values().any(written))
    }

    /// A file without id beside files with one: the dataset in progress here, else the one known to
    /// be in progress, else the newest provisional one; but not one that has the file from before.
    /// Else it floats until a conference.
    fn companion_target(&self, file: &FileRef) -> DatasetKey {
        let series = file.series;
        let local = &self.series[series];
        let in_progress = |begun: bool| {
            let mut newest = local.datasets.iter().rev().filter(move |dataset| {
                let floating = dataset.key.id.is_empty();
                !floating && dataset.begun >= begun && self.status(&dataset.key) == Status::Open
            });
            newest.next().map(|dataset| dataset.key.clone())
        };
        let free = |key: &DatasetKey| !self.written_before(key, file) || self.goes_on_now(key);
        let provisional = || {
            let newest = self.shared.series[series].datasets.last()?;
            let ours = !newest.restored && self.status(&newest.key) == Status::Provisional;
            ours.then(|| newest.key.clone())
        };
        let floating = || {
            let mut open = local.datasets.iter().filter(|dataset| dataset.key.id.is_empty());
            let key = open.find(|dataset| dataset.phase == Phase::Open);
            key.map(|dataset| dataset.key.clone())
        };
        // What floats already is older than this write of the same file, and gives way to it.
        let afloat =
            floating().filter(|key| local.find(key).is_some_and(|own| own.holds(&file.name)));
        afloat
            .or_else(|| {
                in_progress(true).or_else(|| in_progress(false)).or_else(provisional).filter(free)
            })
            .or_else(floating)
            .unwrap_or_else(|| DatasetKey::new(series, "", local.floating))
    }

    /// Returns the newest dataset, if it can still take files without id.
    pub(super) fn newest_taker(&self, series: usize) -> Option<&DatasetKey> {
        let newest = self.shared.series[series].datasets.last()?;
        let takes = match newest.state {
            DatasetState::Open => true,
            DatasetState::Provisional => !newest.restored,
            DatasetState::Confirmed | DatasetState::Dropped => false,
        };
        takes.then_some(&newest.key)
    }

    pub(super) fn place(&mut self, file: &FileRef, keep: Option<Reason>) -> Placed {
        let mut key = self.target(file);
        if self.leads(&key, file) {
            key.generation += 1;
        }
        self.note_rewrite(file, &key);
        self.put(file, key, keep)
    }

    /// Notes that a full set of files does not mean that a checkpoint is complete: one of its files
    /// is written again after a sync point, or could have been.
    pub(super) fn note_rewrite(&mut self, file: &FileRef, target: &DatasetKey) {
        if file.id.is_none() {
            return;
        }
        let dataset = self.series[file.series].find(target);
        let held = dataset.and_then(|dataset| dataset.files.get(&file.name));
        let written = held.is_some_and(|file| file.open == 0 && file.bytes > 0);
        let same = self.written_before(target, file) || (written && self.is_aside());
        let newest = self.shared.series[file.series].datasets.last();
        let last = self.series[file.series].datasets.last();
        let continued = newest.is_some_and(|newest| {
            !newest.restored
                && newest.state == DatasetState::Confirmed
                && newest.key.same_group(target)
                && last.is_some_and(|last| last.key == newest.key && last.holds(&file.name))
        });
        if same || continued {
            self.series[file.series].news.rewrites = true;
        }
    }

    /// Enters an open of `file` into the dataset `key`.
    pub(super) fn put(&mut self, file: &FileRef, key: DatasetKey, keep: Option<Reason>) -> Placed {
        let now_ms = self.clock_ms;
        let shared = &self.shared.series[file.series];
        let on_prefix = keep.or_else(|| self.reason_for(file, &key));
        let floating = self.config.series[file.series].has_id && key.id.is_empty();
        let known = self.shared.find(&key).is_some_and(|dataset| dataset.seals == 0);
        let learning = shared.routing.watches() || self.is_new(file);
        self.tell_revived(file);
        self.take_back_amendment(file);
        self.note_leaders(&key);
        let series = &mut self.series[file.series];
        series.tombstones.retain(|tombstone| tombstone.name != file.name);
        if learning {
            series.written.insert(name_hash(&file.masked));
        }
        let begun = series.begun;
        let dataset = series.entry(&key, now_ms);
        let begin = !dataset.begun;
        let revoke = std::mem::take(&mut dataset.prepared);
        dataset.begun = true;
        if begin {
            dataset.begun_ms = now_ms;
            self.begins += 1;
            dataset.order = self.begins;
        }
        dataset.phase = Phase::Open;
        dataset.open_file(file, on_prefix, begun);
        dataset.touch(now_ms);
        if begin && !floating {
            series.note_begin(&key, now_ms);
        }
        // The others learn at once that a dataset has begun (or is open again).
        self.agreement.changed(if floating || (known && !revoke) { 1 } else { 2 });
        Placed { key, begin, revoke, on_prefix, joined: false }
    }

    /// Tells whether a pointer file names a checkpoint of which this rank, or one that has not
    /// heard of a fall-back, has files in the cache: on the PFS it would be there before them, and
    /// outlive them if a node is lost.
    #[must_use]
    pub fn goes_with_cached(&self, file: &FileRef) -> bool {
        if file.id.is_some() || !self.config.series[file.series].has_id || self.is_passive() {
            return false;
        }
        let own = self.series[file.series].find(&self.target(file));
        let cached = |own: &LocalDataset| own.files.values().any(|file| file.on_prefix.is_none());
        !self.shared.fallen_back || own.is_some_and(cached)
    }

    /// Tells whether nobody has seen yet how the program treats files of this kind.
    pub(super) fn is_new(&self, file: &FileRef) -> bool {
        self.config.series[file.series].learn
            && !self.series[file.series].kinds.contains(&kind_hash(&file.masked))
    }
}
