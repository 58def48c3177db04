//! The program opens files, writes and closes them. Nothing here communicates or waits.

use super::matters::unsealed::set_published;
use super::parts::Machine;
use super::state::{LocalDataset, LocalFile, OnPfs, Phase, Routing, Status};
use super::terms::{
    Accesses, DatasetKey, FileRef, Hints, Intent, LeftAlone, Overdue, Placed, Placement, Reason,
    Why, name_hash,
};

impl Machine {
    /// Decides where `file` goes, which the program opens for writing. The caller acts on the
    /// answer before the open goes on.
    pub fn write_open(&mut self, file: &FileRef, intent: Intent, now_ms: u64) -> Placement {
        self.facts.tick(now_ms);
        if self.facts.is_passive() {
            return self.write_open_passive(file, intent);
        }
        if self.logs.is_left_alone(file) {
            return Placement::Pass;
        }
        if self.logs.expect_append(&self.facts, file, intent) {
            self.watch.mark_unsafe(&mut self.facts, file, Why::GoesOn);
        }
        if intent.rewrites() && !self.facts.config.series[file.series].has_id {
            let together = self.watch.co_writers(file).is_some();
            self.facts.note_gone(file, together); // if only by this open
        }
        if intent.rewrites() {
            let placed = self.place(file, None);
            self.facts.note_anew(&placed.key, file, intent);
            return Placement::Dataset(placed);
        }
        let (names, rank) = (&self.watch.shared()[file.series], self.facts.config.rank);
        let others = names.others_write(name_hash(&file.masked), rank);
        let intent = Intent { together: intent.together || others, ..intent };
        match self.facts.holder(file) {
            Some((key, Status::Open)) if !self.facts.is_changed_again(&key, file, intent) => {
                Placement::Dataset(self.put(file, key, None))
            }
            Some((key, status))
                if !self.facts.file_is_on_prefix(&key, &file.name)
                    || (status != Status::Open
                        && self.stays_on_prefix(file).is_none()
                        && !self.watch.has_co_writers(&self.facts, file)
                        && !self.is_still_watched(&key, &file.name, status)) =>
            {
                Placement::CopyUp { from: key }
            }
            // Only the PFS has it: it is changed there, as it would be without us.
            Some(_) | None => {
                let reason = self.stays_on_prefix(file).unwrap_or(Reason::Follows);
                Placement::Dataset(self.place(file, Some(reason)))
            }
        }
    }

    /// Tells whether all that was seen of the file is one checkpoint that the program may go on
    /// with: others may be about to open what this rank has made for them.
    fn is_still_watched(&self, key: &DatasetKey, name: &str, status: Status) -> bool {
        let held = self.facts.file(key, name);
        let is_watched = held.is_some_and(|held| held.on_prefix == Some(Reason::Watched));
        status == Status::Provisional && is_watched
    }

    /// The PFS takes everything; what the cache still holds under that name is then out of date.
    fn write_open_passive(&mut self, file: &FileRef, intent: Intent) -> Placement {
        if !intent.rewrites()
            && let Some((from, _)) = self.facts.holder(file)
            && !self.facts.file_is_on_prefix(&from, &file.name)
        {
            return Placement::CopyUp { from };
        }
        self.facts.series[file.series].held(&file.name).for_each(LocalFile::delete);
        Placement::Pass
    }

    /// Decides what becomes of a private copy ([`Placement::CopyUp`]) at its last close. `Pass`:
    /// discard it if it is unchanged, else write it to the PFS. Otherwise it becomes the file's
    /// content in that dataset, as if by [`Machine::write_open`].
    pub fn copy_up_closed(&mut self, file: &FileRef, changed: bool, now_ms: u64) -> Placement {
        self.facts.tick(now_ms);
        if !changed {
            return Placement::Pass;
        }
        if self.facts.is_passive() {
            return self.write_open_passive(file, Intent::REWRITE);
        }
        Placement::Dataset(self.place(file, None))
    }

    pub(crate) fn open_failed(&mut self, key: &DatasetKey, name: &str, now_ms: u64) {
        self.facts.tick(now_ms);
        let Some(dataset) = self.facts.own_mut(key) else { return };
        let Some(file) = dataset.files.get_mut(name) else { return };
        file.open = file.open.saturating_sub(1);
        if file.open == 0 && file.closed_before.is_none() {
            dataset.files.remove(name);
        }
        dataset.touch(now_ms);
        self.facts.agreement.changed(1);
    }

    /// Notes that the dataset is not whole without this file, unless the program opens it after
    /// all.
    pub(crate) fn open_refused(&mut self, key: &DatasetKey, name: &str, reason: &str, now_ms: u64) {
        self.open_failed(key, name, now_ms);
        if let Some(dataset) = self.facts.own_mut(key) {
            dataset.refused.insert(name.to_string(), reason.to_string());
        }
    }

    pub fn write_closed(&mut self, key: &DatasetKey, name: &str, bytes: u64, now_ms: u64) {
        self.facts.tick(now_ms);
        let count = self.facts.agreement.count;
        let series = &mut self.facts.series[key.series];
        let Some(dataset) = series.find_mut(key) else { return };
        dataset.touch(now_ms);
        if let Some(file) = dataset.files.get_mut(name) {
            file.open = file.open.saturating_sub(1);
            file.bytes = bytes;
            file.closed_ms = now_ms;
            file.closed_before = Some(count + 1);
            let masked = file.named.masked;
            if file.on_prefix.is_none() {
                self.unsealed.note_closed(key.series, name, now_ms);
            }
            let largest = series.sizes.entry(masked).or_default();
            *largest = bytes.max(*largest);
        }
        series.leave_joined(key, name);
        self.facts.agreement.changed(1);
        self.telling.note_name();
        self.logs.note_append(&mut self.facts, key, name, bytes);
    }

    /// Makes the dataset invalid: a write, truncate, fsync or close failed, or the store was full.
    pub fn failed(&mut self, key: &DatasetKey, reason: &str, now_ms: u64) {
        self.facts.tick(now_ms);
        if let Some(dataset) = self.facts.own_mut(key) {
            dataset.invalid.get_or_insert_with(|| reason.to_string());
            self.facts.agreement.changed(1);
        }
    }

    /// Remembers a template (text of `patterns::temporary`); returns the one that gives way to it.
    pub(crate) fn learn_temporary(&mut self, series: usize, template: &str) -> Option<String> {
        self.facts.series[series].learn_temporary(template)
    }

    pub(super) fn place(&mut self, file: &FileRef, keep: Option<Reason>) -> Placed {
        let mut key = self.facts.target(file);
        if self.rotations.leads(&self.facts, &key, file) {
            key.generation += 1;
        }
        self.watch.note_rewrite(&self.facts, file, &key);
        self.put(file, key, keep)
    }

    pub(super) fn put(&mut self, file: &FileRef, key: DatasetKey, keep: Option<Reason>) -> Placed {
        let now_ms = self.facts.clock_ms;
        let shared = &self.facts.shared.series[file.series];
        let on_prefix = keep.or_else(|| self.reason_for(file, &key));
        let floating = self.facts.config.series[file.series].has_id && key.id.is_empty();
        let known = self.facts.shared.find(&key).is_some_and(|dataset| dataset.seals.count == 0);
        let learning = shared.routing.watches()
            || self.watch.is_new(&self.facts, file)
            || self.watch.is_tried(&self.facts, file);
        self.others.tell_revived(&mut self.facts, file);
        self.deletions.take_back_amendment(&mut self.facts, file);
        self.rotations.note_leaders(&self.facts, &key);
        self.deletions.revive(file.series, &file.name);
        if learning {
            self.watch.note_written(file);
        }
        let series = &mut self.facts.series[file.series];
        let begun = series.begun;
        let dataset = series.entry(&key, now_ms);
        let begin = !dataset.begun;
        let revoke = std::mem::take(&mut dataset.prepared);
        dataset.begun = true;
        if begin {
            dataset.begun_ms = now_ms;
            self.facts.begins += 1;
            dataset.order = self.facts.begins;
        }
        dataset.phase = Phase::Open;
        dataset.open_file(file, on_prefix, begun);
        dataset.touch(now_ms);
        if begin && !floating {
            series.note_begin(&key, now_ms);
        }
        // The others learn at once that a dataset has begun (or is open again).
        self.facts.agreement.changed(if floating || (known && !revoke) { 1 } else { 2 });
        Placed { key, begin, revoke, on_prefix, joined: false }
    }

    /// Returns `None` if a new open of `file` in the dataset `key` goes to the cache.
    pub(super) fn reason_for(&self, file: &FileRef, key: &DatasetKey) -> Option<Reason> {
        let facts = &self.facts;
        let own = facts.file(key, &file.name);
        if let Some(reason) = own.and_then(|own| own.on_prefix) {
            return Some(reason);
        }
        if facts.is_open_in_cache(key, &file.name) {
            return None;
        }
        let stays = self.stays_on_prefix(file);
        if stays.is_some() {
            return stays;
        }
        if self.unsealed.is_out_of_reach(facts, file, key) {
            return Some(Reason::NoAgreement);
        }
        let spilled = facts.shared.find(key).is_some_and(|dataset| dataset.failing.prefix_only);
        (spilled || facts.is_rest(key)).then_some(Reason::Unsealable)
    }

    pub(super) fn stays_on_prefix(&self, file: &FileRef) -> Option<Reason> {
        let facts = &self.facts;
        // A checkpoint without ids that others have begun in their caches goes on there.
        let goes_on = file.id.is_none() && self.watch.is_parted(facts, file);
        match facts.shared.series[file.series].routing {
            Routing::Learning if !goes_on => return Some(Reason::Watched),
            Routing::Prefix if !goes_on => return Some(self.watch.why_series_stays(file)),
            _ => {}
        }
        if (facts.shared.fallen_back || facts.falls_back) && !self.goes_with_cached(file) {
            return Some(Reason::FallenBack);
        }
        if self.watch.is_parted(&self.facts, file) {
            return facts.is_overfull(file.series).then_some(Reason::WaitsForFlush);
        }
        let tried = self.watch.is_tried(facts, file);
        let known = self.watch.why_stays(file).filter(|_| !tried);
        if let Some(why) = known {
            return Some(Reason::Learned(why));
        }
        let begun = facts.series[file.series].begun;
        let beside = file.temporary && self.watch.shared()[file.series].tries_any(begun);
        if tried || beside || self.watch.is_new(facts, file) {
            return Some(Reason::Watched);
        }
        facts.is_overfull(file.series).then_some(Reason::WaitsForFlush)
    }

    /// Tells whether a pointer file names a checkpoint that has files in some rank's cache. On the
    /// PFS it would be there before them, and outlive them if a node is lost.
    pub(crate) fn goes_with_cached(&self, file: &FileRef) -> bool {
        let facts = &self.facts;
        if file.id.is_some() || !facts.config.series[file.series].has_id || facts.is_passive() {
            return false;
        }
        let own = facts.series[file.series].find(&facts.target(file));
        let cached = |own: &LocalDataset| own.files.values().any(|file| file.on_prefix.is_none());
        !facts.shared.fallen_back || own.is_some_and(cached)
    }

    pub fn moved_to_prefix(&mut self, key: &DatasetKey, name: &str, reason: Reason) {
        self.set_on_prefix(key, name, Some(reason));
    }

    pub(crate) fn kept_in_cache(&mut self, key: &DatasetKey, name: &str) {
        self.set_on_prefix(key, name, None);
    }

    fn set_on_prefix(&mut self, key: &DatasetKey, name: &str, on_prefix: Option<Reason>) {
        self.telling.note_name();
        let Some(dataset) = self.facts.own_mut(key) else { return };
        let Some(file) = dataset.files.get_mut(name) else { return };
        (file.on_prefix, file.keeps_copy) = (on_prefix, false);
        file.joined &= on_prefix.is_none(); // this rank answers for what it has there
        dataset.changes += 1;
    }

    /// Finds the closed files in cache that wait for a seal for too long, in the order in which the
    /// helper thread is to copy them to the PFS, with [`Machine::published`] after each and none
    /// after a failure. New files go to the PFS until the next agreement.
    pub fn overdue(&mut self, now_ms: u64) -> Vec<Overdue> {
        self.overdue_before(None, now_ms)
    }

    /// Does what [`Machine::overdue`] does when the next checkpoint of the series `coming` is about
    /// to begin.
    pub fn overdue_before(&mut self, coming: Option<usize>, now_ms: u64) -> Vec<Overdue> {
        self.unsealed.overdue_before(&mut self.facts, coming, now_ms)
    }

    /// Notes that an overdue file, or one that a thread flushes, is on the PFS, unless it is open
    /// again.
    pub fn published(&mut self, key: &DatasetKey, name: &str) {
        set_published(&mut self.facts, key, name, OnPfs::There);
    }

    /// Notes that threads flush the dataset, after those whose flush began before: a later flush
    /// must not bring older content.
    pub fn flush_begun(&mut self, key: &DatasetKey) {
        for file in self.facts.seal_files(key) {
            set_published(&mut self.facts, key, &file.name, OnPfs::Coming);
        }
    }

    /// Learns from a read of another rank's file. Call it for every such file while learning, later
    /// only for those in the cache of another node.
    pub(crate) fn read_elsewhere(&mut self, file: &FileRef) {
        self.watch.read_elsewhere(&mut self.facts, file);
    }

    /// Notes what this rank has done to a watched file of `key` through a descriptor that is closed
    /// now; the machine names it.
    pub fn watched(&mut self, key: &DatasetKey, file: &FileRef, done: Accesses) {
        self.verdicts.watched(&mut self.facts, key, file, done);
    }

    /// Tells whether ranks of several nodes write such files into their caches, each node its
    /// part.
    pub(crate) fn is_parted(&self, file: &FileRef) -> bool {
        self.watch.is_parted(&self.facts, file)
    }

    /// Tells whether there are any, the same on all ranks.
    pub(crate) fn knows_parted(&self) -> bool {
        self.watch.knows_parted(&self.facts)
    }

    /// Tells whether MPI-IO is told so of a file that goes to the PFS, to see what it does then.
    pub(crate) fn is_tried(&self, file: &FileRef) -> bool {
        self.hints(file).is_some_and(|hints| hints != Hints::None)
            && self.watch.is_tried(&self.facts, file)
    }

    /// Returns what MPI-IO is to be told of such a file.
    pub(crate) fn hints(&self, file: &FileRef) -> Option<Hints> {
        self.watch.hints(&self.facts, file)
    }

    /// Notes that this rank has written to such a file: the others hear of it with the next
    /// agreement.
    pub(crate) fn note_parted(&mut self) {
        self.telling.note_name();
    }

    /// Notes that ranks open the file by one call: those of several nodes (`far`), or of one an
    /// older file.
    pub(crate) fn mark_opened_together(&mut self, file: &FileRef, far: bool) {
        match far || file.id.is_some() {
            true => self.watch.mark_opened_together(&mut self.facts, file),
            false => self.mark_unsafe(file, Why::Writers),
        }
    }

    pub(crate) fn mark_unsafe(&mut self, file: &FileRef, why: Why) {
        self.watch.mark_unsafe(&mut self.facts, file, why);
    }

    /// Takes the files of the template out of the datasets in progress for good; sealed ones are no
    /// longer flushed. The caller has brought what the cache held to the PFS.
    pub fn silence(&mut self, series: usize, template: u64) -> Vec<LeftAlone> {
        self.logs.silence(&mut self.facts, series, template)
    }
}
