//! The state machine of one rank: where files go, when a dataset is sealed, confirmed, flushed,
//! evicted. Pure: events in, actions and steps out; time, epochs and outcomes are given in.
//!
//! # How a caller drives it
//! * **File events** ([`Machine::write_open`] ... [`Machine::renamed`]) at any time, from any
//!   thread, under one lock. What an answer asks for (a first record, a revocation) is done
//!   durably, *with the lock held*, before the program's call goes on.
//! * **Sync points**: [`Machine::pass`]; if they carry an agreement, all-reduce [`Machine::words`]
//!   (maximum) and call [`Machine::agreed`]. On [`Next::Confer`]: gather every rank's
//!   [`Machine::report`], call [`Machine::confer`], then perform the steps.
//!   [`Machine::end_turn`] when all that is done.
//! * **Steps**: while [`Machine::next_step`] gives one, carry it out and call [`Machine::done`].
//!   The lock is not held while a step communicates.
//!   * [`Step::Seal`]: take [`Machine::seal_files`]; checksums, redundancy, catalog. Then, in one
//!     locked section: if [`Machine::seal_record`] says yes, write the record (state Prepared, with
//!     epoch, and confirmed if planned) durably; and take [`Machine::vote`]. All-reduce the votes
//!     (maximum of [`Outcome::to_word`]). If `Done`: node leaders rename the directory (and write
//!     the confirmed marker if planned), all-reduce again, then [`Machine::done`].
//!   * [`Step::Encode`]: agree on whether all ranks have begun. When this rank's part has ended,
//!     [`Machine::encoded`]; an agreement tells when all have, and a conference decides on
//!     [`Step::Seal`], or, if the program has changed something, [`Step::Discard`]. What comes
//!     before that end (the next dataset, a halt, the program's end) makes it wait.
//!   * [`Step::Confirm`]: [`Machine::vote`], all-reduce, leaders write the marker, all-reduce,
//!     [`Machine::done`]. The all-reduce before `done` is what makes a following eviction safe.
//!   * [`Step::Flush`]: [`Machine::is_left_out`] says what not to write, [`Machine::files_along`]
//!     what goes along of older ones; agree on the outcome.
//!   * [`Step::Spill`]: write the files that the step names; [`Machine::moved_to_prefix`] for each
//!     that is there; agree on the outcome.
//!   * The others are local; `done` with `Outcome::Done`.
//! * **The end** (in MPI_Finalize): [`Machine::begin_end`], then gather, confer and perform the
//!   steps once, unconditionally; [`Machine::end`]. Afterwards every file is
//!   [`Placement::Pass`], and [`Machine::overdue`] lists what is left.
//! * **Restart**: `cache::rebuild`, then [`Machine::resume`] with what it offers.
//!
//! # Invariants
//! * `shared` is equal on all ranks whenever a rank is outside a conference; reports carry its
//!   digest, and a difference ends the agreements on all ranks at once.
//! * A write after this rank voted for something that confirms a dataset never changes it: it goes
//!   to the next generation. A write to any other sealed dataset revokes the record first.
//! * Only confirmed datasets make others be evicted and deletions be published, or are due for a
//!   flush. (A provisional one that the restart found is flushed if the program still sees a file
//!   in it that nothing newer has.)
//!
//! [perform]: Machine::next_step

mod agreement;
mod calls;
mod conference;
mod config;
mod contested;
mod decide;
mod deletions;
mod encoding;
mod evict;
mod explicit;
mod files;
mod habit;
mod idle;
mod keys;
mod knowledge;
mod lacking;
mod local;
mod moved;
mod need;
mod others;
mod outcome;
mod overdue;
mod places;
mod reason;
mod report;
mod restart;
mod restless;
mod rotation;
mod shared;
mod steps;
mod trust;
mod visible;
mod watched;
mod wire;

pub use crate::streams::SyncKind;
pub use agreement::WORDS;
pub use calls::{Call, ProgramState};
pub use config::{
    CLEAN_SEALS, CONFERENCE_MS, MachineConfig, Places, SETTLE_MS_MAX, SYNC_POINTS_MAX, SeriesConfig,
};
pub use contested::{Contested, contested_reason, parted_reason};
pub use encoding::UnderWay;
pub use habit::Habit;
pub use idle::Idle;
pub use keys::{DatasetKey, Deletion, FileRef, Intent, Placed, Placement, Renamed};
pub use knowledge::{Knowledge, Why, kind_hash, name_hash, set_hash};
pub use moved::LeftBehind;
pub use need::{Need, NeedLimits};
pub use others::{Heard, Withdrawn};
pub use outcome::{Outcome, SealFile};
pub use reason::Reason;
pub use report::{DatasetReport, Mark, Report, SealedReport, SeriesReport};
pub use restart::{Offer, Rejected, RestartDecision};
pub use restless::{Restless, Silenced};
pub use shared::{DatasetState, Routing, SharedDataset};
pub use steps::{Gone, Next, Overdue, SealPlan, Step};

use std::collections::BTreeSet;

use agreement::Agreement;
use conference::Conference;
use local::Begun;
use local::{LocalDataset, LocalFile, LocalSeries, Phase, Published};
use shared::Shared;
use visible::{Due, News};

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Machine {
    config: MachineConfig,
    shared: Shared,
    series: Vec<LocalSeries>,
    agreement: Agreement,
    conference: Option<Conference>,
    /// Latest time that any event gave.
    clock_ms: u64,
    /// Halt reason that this rank asks for; 0 for none.
    halt: i64,
    /// This rank cannot use the cache any more, and tells the others.
    falls_back: bool,
    /// Its store has no room for two more datasets like those in it.
    scarce: bool,
    /// This rank can encode beside the program.
    aside: bool,
    ending: bool,
    /// Conferences since the program is in MPI_Finalize.
    end_conferences: u32,
    /// Datasets that this rank has begun.
    begins: u64,
    ended: bool,
    exiting: bool,
    /// What the last conference told of other ranks' doings.
    heard: Heard,
    /// The thread that the next event comes from; 0: not told.
    caller: u64,
    /// What other nodes have not heard of names on this rank; on all, by the last agreement.
    news: News,
    due: Due,
    /// The last conference met files that do not know their dataset yet.
    left_over: bool,
}

/// A rank's own part of a dataset that the restart offers or rejects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoredFiles {
    /// Names relative to the prefix, the same with the id masked, bytes, on the PFS.
    pub files: Vec<(String, String, u64, bool)>,
    /// Names of those of which the PFS has what the program has made of them since.
    pub left: BTreeSet<String>,
}

/// What a restart hands to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resumed {
    /// The decision after the rebuild; equal on all ranks.
    pub decision: RestartDecision,
    /// This rank's files of each offered dataset, in the order of `decision.offered`.
    pub own: Vec<RestoredFiles>,
    /// Largest dataset id that the prefix's index knows; equal on all ranks.
    pub last_id: u64,
    /// Per series, the largest number in series that the prefix's index knows.
    pub last_numbers: Vec<u64>,
    /// Series, captured id and number of what that index has.
    pub listed: Vec<(usize, String, u64)>,
}

impl Machine {
    /// Makes a machine that has seen nothing; `knowledge` of each series, default where there is
    /// none.
    #[must_use]
    pub fn new(config: MachineConfig, knowledge: &[Knowledge], now_ms: u64) -> Self {
        let series = (0..config.series.len()).map(|index| {
            let known = knowledge.get(index).cloned().unwrap_or_default();
            LocalSeries {
                known: known.files,
                temporaries: known.temporaries,
                kinds: known.kinds,
                sizes: known.sizes,
                silenced: known.restless,
                marked: known.marked,
                ..LocalSeries::default()
            }
        });
        Machine {
            shared: Shared::new(&config, knowledge),
            series: series.collect(),
            agreement: Agreement::new(now_ms),
            conference: None,
            clock_ms: now_ms,
            halt: 0,
            falls_back: false,
            scarce: false,
            aside: false,
            ending: false,
            end_conferences: 0,
            begins: 0,
            ended: false,
            exiting: false,
            heard: Heard::default(),
            caller: 0,
            news: News::None,
            due: Due::default(),
            left_over: false,
            config,
        }
    }

    /// Tells whether any dataset is known, of this launch or an earlier one, wherever it is; the
    /// same on all ranks.
    pub fn knows_datasets(&self) -> bool {
        let all = (0..self.config.series.len()).any(|at| !self.datasets(at).is_empty());
        all || self.shared.next_id > 1
    }

    /// Primes the machine with what the restart found. Call it before any other event.
    pub fn resume(&mut self, resumed: &Resumed) {
        let decision = &resumed.decision;
        let last_id = decision.last_id.max(resumed.last_id);
        self.shared.next_id = last_id + 1;
        for (series, number) in resumed.last_numbers.iter().enumerate() {
            self.shared.series[series].next_number = number + 1;
        }
        for (series, id, number) in &resumed.listed {
            if self.config.series[*series].has_id {
                self.series[*series].note_left(id, *number);
            }
        }
        for rejected in &decision.rejected {
            let mut dataset = SharedDataset::new(rejected.key.clone());
            dataset.id = rejected.id;
            dataset.state = DatasetState::Dropped;
            dataset.restored = true;
            self.restore(dataset, Phase::Dropped, None);
        }
        for (index, offer) in decision.offered.iter().enumerate() {
            let mut dataset = SharedDataset::new(offer.key.clone());
            let series = &mut self.shared.series[offer.key.series];
            series.next_number = series.next_number.max(offer.number + 1);
            let rule = &self.config.series[offer.key.series];
            dataset.id = offer.id;
            dataset.number = offer.number;
            dataset.restored = true;
            dataset.flushed = offer.flushed || offer.on_prefix;
            // The newest may have files that other nodes need now. One that may not be complete
            // must not take the names of an older one.
            let newest = index + 1 == decision.offered.len() && (offer.confirmed || rule.has_id);
            let is_due = offer.output || rule.is_due(offer.number);
            dataset.output = offer.output;
            dataset.due = newest || (offer.confirmed && is_due);
            dataset.on_prefix = offer.on_prefix;
            dataset.seals = 1;
            dataset.state = match offer.confirmed {
                true => DatasetState::Confirmed,
                false => DatasetState::Provisional,
            };
            self.restore(dataset, Phase::Sealed, resumed.own.get(index));
        }
        for (series, local) in self.shared.series.iter_mut().zip(&mut self.series) {
            series.datasets.sort_by_key(|dataset| dataset.id);
            let floating = series.datasets.iter().filter(|dataset| dataset.key.id.is_empty());
            let last = floating.map(|dataset| dataset.key.generation + 1).max();
            local.floating = last.unwrap_or(0);
        }
        self.resume_course(resumed);
        for series in &mut self.series {
            let order = &self.shared.series;
            series.datasets.sort_by_key(|dataset| {
                let shared = &order[dataset.key.series].datasets;
                shared.iter().position(|other| other.key == dataset.key)
            });
        }
    }

    fn restore(&mut self, dataset: SharedDataset, phase: Phase, own: Option<&RestoredFiles>) {
        let series = dataset.key.series;
        if self.shared.find(&dataset.key).is_some() {
            // Rejected in cache, but offered from the PFS: one entry, the offered one.
            self.shared.series[series].datasets.retain(|other| other.key != dataset.key);
            self.series[series].datasets.retain(|other| other.key != dataset.key);
        }
        let mut local = LocalDataset::new(dataset.key.clone(), self.clock_ms);
        local.begun = true;
        local.phase = phase;
        local.prepared = phase == Phase::Sealed;
        let is_left = |name: &str| own.is_some_and(|own| own.left.contains(name));
        for (name, masked, bytes, on_prefix) in own.iter().flat_map(|own| &own.files) {
            let file = LocalFile {
                masked: name_hash(masked),
                kind: kind_hash(masked),
                bare: name == masked,
                open: 0,
                open_since: 0,
                on_prefix: match is_left(name) {
                    true => Some(Reason::ChangedApart),
                    false => on_prefix.then_some(Reason::Follows),
                },
                keeps_copy: is_left(name) && !on_prefix,
                temporary: false,
                deleted: false,
                deleted_early: false,
                amended: false,
                moved: is_left(name),
                bytes: *bytes,
                closed_ms: self.clock_ms,
                closed_before: Some(0),
                published: Published::No,
                outlived: false,
                joined: false,
                begun: Begun::InPlace,
            };
            local.files.insert(name.clone(), file);
        }
        self.series[series].datasets.push(local);
        self.shared.series[series].datasets.push(dataset);
    }

    /// Asks that the job halts (any rank may; 0 withdraws).
    pub fn request_halt(&mut self, reason: i64) {
        self.halt = reason;
    }

    /// Notes that this rank cannot use the cache any more: its new files go to the PFS, and those
    /// of all ranks from the next agreement on.
    pub fn fall_back(&mut self) {
        if !std::mem::replace(&mut self.falls_back, true) {
            self.agreement.changed(2);
        }
    }

    /// Notes whether this rank's store has no room for two more datasets like those in it.
    pub fn set_scarce(&mut self, scarce: bool) {
        self.scarce = scarce;
    }

    /// Tells whether the new files of all ranks go to the PFS: a rank has called
    /// [`Machine::fall_back`], or several datasets in a row could not be sealed in the cache.
    #[must_use]
    pub fn has_fallen_back(&self) -> bool {
        self.shared.fallen_back
    }

    /// Notes that the program is in MPI_Finalize: the conference that follows seals, confirms and
    /// flushes; one more follows if [`Machine::ends_again`] says so.
    pub fn begin_end(&mut self, now_ms: u64) {
        self.tick(now_ms);
        self.ending = true;
    }

    /// Notes that the process ends, perhaps without a conference: what is closed waits for no
    /// agreement.
    pub fn begin_exit(&mut self) {
        self.exiting = true;
    }

    /// Notes that the end's conference is over; nothing is routed any more.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Returns the sealed datasets and those known to be in progress, oldest first.
    #[must_use]
    pub fn datasets(&self, series: usize) -> &[SharedDataset] {
        &self.shared.series[series].datasets
    }

    /// Tells where the files of the series go.
    #[must_use]
    pub fn routing(&self, series: usize) -> Routing {
        self.shared.series[series].routing
    }

    /// Returns what is known of the series on this rank, to be stored.
    #[must_use]
    pub fn knowledge(&self, series: usize) -> Knowledge {
        let (shared, local) = (&self.shared.series[series], &self.series[series]);
        Knowledge {
            files: local.known,
            settle_ms: shared.settle_ms,
            clean_seals: shared.clean_seals,
            interval_ms: shared.interval_ms,
            unsafe_names: shared.unsafe_names.clone(),
            prefix_only: shared.marked.as_ref().map(|mark| mark.why),
            marked: local.marked.clone(),
            rewrites: shared.rewrites,
            restless: shared.restless.clone(),
            temporaries: local.temporaries.clone(),
            kinds: local.kinds.clone(),
            sizes: local.sizes.clone(),
            habit: shared.habit,
        }
    }

    /// Returns the largest size that a file of this masked name had so far on this rank, bytes; 0
    /// if unknown.
    #[must_use]
    pub fn expected_bytes(&self, series: usize, masked: &str) -> u64 {
        self.series[series].sizes.get(&name_hash(masked)).copied().unwrap_or(0)
    }

    /// Counts the bytes of this rank's closed files of a dataset that lie in cache.
    #[must_use]
    pub fn cached_bytes(&self, key: &DatasetKey) -> u64 {
        let files = self.series[key.series].find(key).into_iter().flat_map(|one| &one.files);
        files.filter(|(_, file)| file.on_prefix.is_none()).map(|(_, file)| file.bytes).sum()
    }

    /// Takes what the conference that has just begun told of other ranks' doings.
    pub fn take_heard(&mut self) -> Heard {
        std::mem::take(&mut self.heard)
    }

    /// Notes that the events that follow come from this thread of the program.
    pub fn called_by(&mut self, thread: u64) {
        self.caller = thread;
    }

    /// The event comes from a thread that sync points do not stop: one may be passed between any
    /// two of its doings.
    fn is_aside(&self) -> bool {
        self.agreement.streams.has_other_than(self.caller)
    }

    fn tick(&mut self, now_ms: u64) {
        self.clock_ms = self.clock_ms.max(now_ms);
    }

    /// Nothing is routed any more.
    fn is_passive(&self) -> bool {
        self.ended || self.agreement.is_disabled()
    }

    /// The dataset waits to be told where its files belong.
    fn is_floating(&self, key: &DatasetKey) -> bool {
        key.id.is_empty() && self.config.series[key.series].has_id
    }
}
