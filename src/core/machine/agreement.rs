//! The agreement: which sync points carry it, what its words say, and what follows from them.
//!
//! Words reduced by maximum: those of the stream ([`Streams::begin`]), then the machine's: sync
//! points passed, milliseconds since the last agreement, datasets in progress and names to be told,
//! busy, invalid, halt, changed since the last conference, how far what is encoded beside the
//! program is. Which sync points carry them is the account of [`crate::streams`].

use super::Machine;
use super::config::{
    BARRIER_STRIDE_MAX, BUSY_MS, BUSY_SYNC_POINTS_MAX, CONFERENCE_MS, SYNC_POINTS_MAX,
};
use super::encoding::Stage;
use super::local::{LocalDataset, Phase, Status};
use super::shared::DatasetState;
use super::steps::Next;
use super::visible::{Due, News};
use crate::streams::{Carries, HEAD, StreamNews, Streams, SyncKind, WORLD};

/// Words of an agreement.
pub const WORDS: usize = HEAD + OWN;
/// Those of the machine.
const OWN: usize = 8;

/// This rank's account of agreements.
#[derive(Debug, Clone)]
pub(super) struct Agreement {
    /// Sync points passed; as many on all ranks after each agreement.
    pub count: u64,
    /// Which sync points carry one.
    pub streams: Streams,
    /// Time of the last agreement on this rank.
    asked_ms: u64,
    /// What this rank has asked for the one that is under way: the time, and its news.
    asks: (u64, News),
    /// Time at which the last one succeeded on this rank.
    agreed_ms: u64,
    /// Agreed time for which files have been open without a pause.
    busy_ms: u64,
    /// Agreed time since the last conference.
    since_conference_ms: u64,
    /// 2: the others must know at once; 1: something for the next conference; 0: nothing.
    changed: u8,
    /// No agreement ever again.
    disabled: bool,
}

impl Agreement {
    pub fn new(now_ms: u64) -> Self {
        Agreement {
            count: 0,
            streams: Streams::new(BARRIER_STRIDE_MAX, now_ms),
            asked_ms: now_ms,
            asks: (now_ms, News::None),
            agreed_ms: now_ms,
            busy_ms: 0,
            since_conference_ms: 0,
            changed: 0,
            disabled: false,
        }
    }

    /// Ends the agreements on this rank; the others are to hear of it.
    pub fn disable(&mut self) {
        self.disabled = true;
        self.streams.end();
    }

    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Returns when the last agreement succeeded on this rank, ms.
    pub fn agreed_ms(&self) -> u64 {
        self.agreed_ms
    }

    /// Asks for a conference: 1 when nobody is busy, 2 at the next agreement.
    pub fn changed(&mut self, urgency: u8) {
        self.changed = self.changed.max(urgency);
    }

    /// Notes that a report was made: it says all that has changed until now.
    pub fn reported(&mut self) {
        self.changed = 0;
        self.since_conference_ms = 0;
    }
}

/// Sync points until the next agreement, aimed at `target_ms` from the agreed time of the last,
/// since which so many have `passed`; at most twice as many. A start-up of a few fast ones would
/// else starve a program of slow steps: a millisecond for two of them says nothing about the next
/// forty.
fn stride(passed: u64, elapsed_ms: u64, target_ms: u64) -> u64 {
    let twice = passed * 2;
    let aimed = (passed * target_ms).checked_div(elapsed_ms).unwrap_or(twice);
    aimed.min(twice).clamp(1, SYNC_POINTS_MAX)
}

impl Machine {
    /// Notes that the program has reached a sync point of the stream, and tells what it carries: an
    /// agreement is [`Machine::words`], all-reduced by maximum, then [`Machine::agreed`].
    pub fn pass(&mut self, stream: usize, kind: SyncKind, now_ms: u64) -> Carries {
        self.tick(now_ms);
        self.agreement.count += 1;
        let carries = self.agreement.streams.pass(stream, kind, self.caller);
        if self.ended { Carries::Nothing } else { carries }
    }

    /// Does [`Machine::pass`] and [`Machine::words`] for a program of one thread. `None`: the sync
    /// point carries nothing.
    pub fn sync_point(&mut self, kind: SyncKind, now_ms: u64) -> Option<[i64; WORDS]> {
        let carries = self.pass(WORLD, kind, now_ms);
        (carries != Carries::Nothing).then(|| self.words(WORLD))
    }

    /// Counts so many sync points of MPI_COMM_WORLD that have passed without an agreement:
    /// [`Machine::idle_points`] has said that they may.
    pub fn passed(&mut self, points: u64) {
        self.agreement.count += points;
        self.agreement.streams.passed(WORLD, points);
    }

    /// Notes that a conference was held by itself: what the ranks do from now on comes after what
    /// all of them have done before.
    pub fn conferred(&mut self) {
        self.agreement.count += 1;
    }

    /// Tells how many collectives and barriers on MPI_COMM_WORLD carry no agreement from now on,
    /// whatever happens.
    #[must_use]
    pub fn idle_points(&self) -> u32 {
        let idle = !self.agreement.disabled && !self.ended;
        if idle { self.agreement.streams.idle(WORLD).try_into().unwrap_or(0) } else { 0 }
    }

    /// Notes that a communicator is to have a stream: see [`Streams::seek`].
    pub fn seek_stream(&mut self) -> u64 {
        self.agreement.streams.seek()
    }

    /// Gives a communicator its place: [`Streams::place`].
    pub fn place_stream(&mut self, on_all: u64, now_ms: u64) -> Option<usize> {
        self.agreement.streams.place(on_all, now_ms)
    }

    /// Ends a stream: [`Streams::close`].
    pub fn close_stream(&mut self, stream: usize) {
        self.agreement.streams.close(stream);
    }

    /// Takes the turn for calls of the program: [`Streams::take_turn`].
    pub fn take_turn(&mut self) -> bool {
        self.agreement.streams.take_turn()
    }

    /// Tells whether this rank has its turn in the stream.
    #[must_use]
    pub fn has_turn(&self, stream: usize) -> bool {
        self.agreement.streams.has_turn(stream)
    }

    /// Notes that what was agreed on in the stream is done.
    pub fn end_turn(&mut self, stream: usize) {
        self.agreement.streams.end_turn(stream);
    }

    /// Takes in the all-reduced words and decides what they ask for; the answer is equal on all
    /// ranks. When it is carried out, [`Machine::end_turn`].
    pub fn agreed(&mut self, stream: usize, words: [i64; WORDS]) -> Next {
        let (head, own) = words.split_at(HEAD);
        let head: [i64; HEAD] = std::array::from_fn(|at| head[at]);
        match self.agreement.streams.hear(stream, head) {
            StreamNews::Acts => {}
            StreamNews::ShutOut => {
                let (_, news) = self.agreement.asks;
                self.news = self.news.max(news);
                return Next::Postponed;
            }
            StreamNews::Ended => return Next::Ended,
            StreamNews::Differ { most, least } => return Next::Disabled { most, least },
        }
        let own: [i64; OWN] = std::array::from_fn(|at| own[at]);
        self.decided(stream, u64::try_from(head[2]).unwrap_or(0), own)
    }

    /// What the words ask for: all ranks have their turn.
    fn decided(&mut self, stream: usize, stream_ms: u64, own: [i64; OWN]) -> Next {
        let [count, elapsed_ms, in_progress, busy, invalid, halt, changed, encoding] = own;
        self.agreement.count = self.agreement.count.max(u64::try_from(count).unwrap_or(0));
        self.agreement.asked_ms = self.agreement.asks.0;
        for series in &mut self.series {
            series.unreachable_ms = None;
            series.unheard.clear();
        }
        self.agreement.agreed_ms = self.clock_ms;
        let elapsed_ms = u64::try_from(elapsed_ms).unwrap_or(0);
        let pending = changed > 0 || invalid > 0 || halt > 0;
        let encoding = self.stage_of(encoding);
        let waits =
            (busy > 0 || encoding == Stage::Goes) && changed < 2 && invalid == 0 && halt == 0;
        self.agreement.busy_ms = if waits { self.agreement.busy_ms + elapsed_ms } else { 0 };
        let passed = self.agreement.streams.since_agreement(stream);
        let stride = stride(passed, stream_ms, self.config.agreement_ms);
        let stride = match in_progress > 0 || pending {
            // A file that stays open for the whole run must not cost an agreement at every step.
            true if self.agreement.busy_ms > BUSY_MS => stride.min(BUSY_SYNC_POINTS_MAX),
            // One shared by collectives that come fast would let a rank read, without a word, older
            // content than a rank of another node has written before the collective between them.
            true => 1,
            false => stride,
        };
        let settle_ms = self.shared.series.iter().map(|series| series.settle_ms).max();
        let agreement = &mut self.agreement;
        agreement.streams.next_after(stream, stride);
        agreement.since_conference_ms += elapsed_ms;
        let quiet_ms = agreement.since_conference_ms;
        let settled = in_progress > 0 && quiet_ms >= settle_ms.unwrap_or(0);
        let settled = settled && encoding != Stage::Goes;
        let urgent = changed > 1;
        let free = busy == 0 && (pending || settled);
        let waited = (pending || in_progress > 0) && quiet_ms >= CONFERENCE_MS;
        let trusts = self.trust_due_ms().is_some_and(|due_ms| quiet_ms >= due_ms);
        let confers = urgent || free || waited || trusts || encoding == Stage::Ended;
        self.due = Due { news: News::of_word(in_progress), confers };
        if confers { Next::Confer } else { Next::Continue }
    }

    /// Ends the agreements for good: one could not be carried out, there is no communication any
    /// more on this rank.
    pub fn disable(&mut self) {
        self.agreement.disable();
    }

    /// Takes the rank's turn for the stream, if it is free, and returns the words to all-reduce;
    /// without the turn the rank only takes part.
    pub fn words(&mut self, stream: usize) -> [i64; WORDS] {
        let mut words = [0; WORDS];
        words[..HEAD].copy_from_slice(&self.agreement.streams.begin(stream, self.clock_ms));
        self.agreement.asks.1 = News::None;
        if self.agreement.streams.has_turn(stream) {
            words[HEAD..].copy_from_slice(&self.own_words());
        }
        words
    }

    fn own_words(&mut self) -> [i64; OWN] {
        let elapsed_ms = self.clock_ms.saturating_sub(self.agreement.asked_ms);
        self.agreement.asks = (self.clock_ms, self.news);
        let in_progress = self.in_progress().count();
        let in_progress = self.take_news().to_word(in_progress as u64);
        let invalid = self.in_progress().any(|dataset| dataset.why_invalid().is_some());
        [
            word(self.agreement.count),
            word(elapsed_ms),
            word(in_progress),
            i64::from(self.is_busy()),
            i64::from(invalid),
            self.halt,
            i64::from(self.agreement.changed),
            self.encoding_word(),
        ]
    }

    /// Datasets in progress that this rank knows of, floating ones apart.
    fn in_progress(&self) -> impl Iterator<Item = &LocalDataset> {
        let all = self.series.iter().flat_map(|series| series.datasets.iter());
        all.filter(|dataset| {
            !self.is_floating(&dataset.key) && self.status(&dataset.key) == Status::Open
        })
    }

    /// The oldest dataset in progress of some series cannot be sealed yet, as far as this rank can
    /// tell. Later ones must wait for it anyway.
    fn is_busy(&self) -> bool {
        (0..self.series.len()).any(|series| {
            let mut open = self.in_progress().filter(|dataset| dataset.key.series == series);
            let Some(oldest) = open.next() else { return false };
            let followed = open.any(|dataset| dataset.is_successor());
            let ready = followed
                || oldest.why_invalid().is_some()
                || self.looks_complete(oldest)
                || self.is_settled(oldest);
            oldest.open_files() > 0 || !ready
        })
    }

    /// Tells whether this rank's files are those of the last confirmed dataset of the series, or
    /// the program has said that they are all.
    pub(super) fn is_complete(&self, dataset: &LocalDataset) -> bool {
        if let Some(explicit) = dataset.explicit {
            return explicit.complete;
        }
        let rewrites = self.shared.series[dataset.key.series].rewrites;
        let known = self.series[dataset.key.series].known;
        !rewrites && dataset.open_files() == 0 && known == Some(dataset.set())
    }

    /// Does what [`Machine::is_complete`] does; the second dataset of a series is compared with the
    /// first, which is confirmed only by the conference that this one waits for.
    pub(super) fn looks_complete(&self, dataset: &LocalDataset) -> bool {
        if let Some(explicit) = dataset.explicit {
            return explicit.complete;
        }
        let series = dataset.key.series;
        let datasets = &self.series[series].datasets;
        let before = datasets.iter().take_while(|other| other.key != dataset.key);
        !self.shared.series[series].rewrites
            && dataset.open_files() == 0
            && self.expected_set(series, before) == Some(dataset.set())
    }

    /// Returns the set of the last confirmed dataset on this rank; else that of the one among
    /// `datasets` that will be confirmed as soon as all know of its successor.
    pub(super) fn expected_set<'a>(
        &'a self,
        series: usize,
        datasets: impl Iterator<Item = &'a LocalDataset>,
    ) -> Option<u64> {
        let first = || {
            let mut sealed = datasets.filter(|dataset| {
                let shared = self.shared.find(&dataset.key);
                dataset.phase == Phase::Sealed
                    && shared.is_some_and(|shared| {
                        shared.state == DatasetState::Provisional && !shared.is_second_rate()
                    })
            });
            sealed.next().map(LocalDataset::set)
        };
        self.series[series].known.or_else(first)
    }

    pub(super) fn is_settled(&self, dataset: &LocalDataset) -> bool {
        let settle_ms = self.shared.series[dataset.key.series].settle_ms;
        self.clock_ms.saturating_sub(dataset.touched_ms) >= settle_ms
    }
}

/// A count as a word; counts stay far below the limit.
fn word(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{MachineConfig, SeriesConfig};

    #[test]
    fn a_fast_start_does_not_starve_slow_steps() {
        assert_eq!(stride(2, 1, 20), 4);
        assert_eq!(stride(2, 0, 20), 4);
        assert_eq!(stride(2, 40, 20), 1);
        assert_eq!(stride(1000, 0, 20), SYNC_POINTS_MAX);
    }

    #[test]
    fn idle_points_carry_nothing_whether_they_are_told_or_counted() {
        let config = MachineConfig::new(0, vec![0], vec![SeriesConfig::new("ckpt", true)]);
        let mut machine = Machine::new(config, &[], 0);
        assert_eq!(machine.idle_points(), 0, "the first one carries an agreement");
        let mut granted = 0;
        for now_ms in 1..60 {
            let mut told = machine.clone();
            let idle = machine.idle_points();
            for at in 0..idle {
                let kind = if at % 2 == 0 { SyncKind::Collective } else { SyncKind::Barrier };
                assert_eq!(told.sync_point(kind, now_ms), None);
            }
            machine.passed(u64::from(idle));
            let words = machine.sync_point(SyncKind::Collective, now_ms);
            assert_eq!(
                words.map(|words| words[0]),
                told.sync_point(SyncKind::Collective, now_ms).map(|words| words[0])
            );
            granted += idle;
            if let Some(words) = words {
                machine.agreed(WORLD, words);
            }
        }
        assert!(granted > 100, "{granted}");
        machine.disable();
        assert_eq!(machine.idle_points(), 0);
    }
}
