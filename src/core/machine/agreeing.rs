//! The agreement: what its words say, and what follows from them. Which sync points carry it is the
//! matter of [`crate::streams`].

use super::matters::encodings::Stage;
use super::parts::Machine;
use super::state::{OWN, WORDS, stride};
use super::terms::{BUSY_MS, BUSY_SYNC_POINTS_MAX, CONFERENCE_MS, Next};
use scr_abi::BARRIERS_CARRY;

use crate::streams::{Carries, HEAD, StreamNews, Streams, SyncKind, WORLD};

impl Machine {
    /// Tells what the sync point of the stream, which the program has reached, carries: an
    /// agreement is [`Machine::words`], all-reduced by maximum, then [`Machine::agreed`].
    pub(crate) fn pass(&mut self, stream: usize, kind: SyncKind, now_ms: u64) -> Carries {
        self.facts.tick(now_ms);
        self.facts.agreement.count += 1;
        self.facts.agreement.barriers += u64::from(kind != SyncKind::Collective);
        let carries = self.facts.agreement.streams.pass(stream, kind, self.facts.caller);
        if self.facts.ended { Carries::Nothing } else { carries }
    }

    /// Does `Machine::pass` and `Machine::words` for a program of one thread; `None`: it
    /// carries nothing.
    pub fn sync_point(&mut self, kind: SyncKind, now_ms: u64) -> Option<[i64; WORDS]> {
        let carries = self.pass(WORLD, kind, now_ms);
        (carries != Carries::Nothing).then(|| self.words(WORLD))
    }

    pub fn passed(&mut self, points: u64) {
        self.facts.agreement.count += points;
        self.facts.agreement.streams.passed(WORLD, points);
    }

    pub(crate) fn streams(&mut self) -> &mut Streams {
        &mut self.facts.agreement.streams
    }

    /// Tells how many sync points this rank has entered.
    pub fn points_entered(&self) -> u64 {
        self.facts.agreement.count
    }

    /// Notes that a conference was held by itself: what ranks do from now on comes after what all
    /// have done before.
    pub(crate) fn conferred(&mut self) {
        self.facts.agreement.count += 1;
    }

    /// Counts the collectives and barriers on MPI_COMM_WORLD that carry no agreement from now on,
    /// whatever happens; with [`BARRIERS_CARRY`] each barrier does.
    pub(crate) fn idle_points(&self) -> u32 {
        let agreement = &self.facts.agreement;
        if agreement.disabled || self.facts.ended {
            return 0;
        }
        let streams = &agreement.streams;
        let carry = if streams.barriers_carry(WORLD) { BARRIERS_CARRY } else { 0 };
        u32::try_from(streams.idle(WORLD)).map_or(0, |idle| idle | carry)
    }

    /// Counts the barriers that this rank has entered, of those that it has to tell.
    pub(crate) fn barriers_entered(&self) -> u64 {
        self.facts.agreement.barriers
    }

    /// Tells whether ranks may open a file that a rank of another node has made right before a
    /// barrier, or are watched for that. It is seen there if the barrier carries an agreement.
    fn needs_barriers(&self) -> bool {
        let mut series = self.facts.shared.series.iter();
        let watches = series.any(|series| series.routing.watches());
        (self.facts.config.tells_of_parted && watches) || self.knows_parted()
    }

    /// Notes that all ranks have tried to open a file together, this one with that outcome: the
    /// agreement that follows tells [`Machine::is_opened_by_all`].
    pub(crate) fn note_opening(&mut self, opened: bool) {
        self.facts.agreement.opening = if opened { 1 } else { 2 };
        self.facts.agreement.opened_by_all = false;
    }

    pub(crate) fn is_opened_by_all(&self) -> bool {
        self.facts.agreement.opened_by_all
    }

    /// Takes in the all-reduced words and decides what they ask for, equally on all ranks. The turn
    /// ends when that is done.
    pub fn agreed(&mut self, stream: usize, words: [i64; WORDS]) -> Next {
        let (head, own) = words.split_at(HEAD);
        let head: [i64; HEAD] = std::array::from_fn(|at| head[at]);
        match self.facts.agreement.streams.hear(stream, head) {
            StreamNews::Acts => {}
            StreamNews::ShutOut => {
                self.telling.postponed();
                return Next::Postponed;
            }
            StreamNews::Ended => return Next::Ended,
            StreamNews::Differ { most, least } => return Next::Disabled { most, least },
        }
        let own: [i64; OWN] = std::array::from_fn(|at| own[at]);
        self.decided(stream, u64::try_from(head[2]).unwrap_or(0), own)
    }

    fn decided(&mut self, stream: usize, stream_ms: u64, own: [i64; OWN]) -> Next {
        let [count, elapsed_ms, in_progress, busy, invalid, halt, changed, encoding, opening] = own;
        self.facts.agreement.opened_by_all = opening == 1;
        self.facts.agreement.count =
            self.facts.agreement.count.max(u64::try_from(count).unwrap_or(0));
        self.facts.agreement.asked_ms = self.facts.agreement.asks_ms;
        self.unsealed.agreed();
        self.facts.agreement.agreed_ms = self.facts.clock_ms;
        let elapsed_ms = u64::try_from(elapsed_ms).unwrap_or(0);
        let pending = changed > 0 || invalid > 0 || halt > 0;
        let encoding = self.encodings.stage_of(encoding);
        let waits =
            (busy > 0 || encoding == Stage::Goes) && changed < 2 && invalid == 0 && halt == 0;
        self.facts.agreement.busy_ms =
            if waits { self.facts.agreement.busy_ms + elapsed_ms } else { 0 };
        let passed = self.facts.agreement.streams.since_agreement(stream);
        let stride = stride(passed, stream_ms, self.facts.config.agreement_ms);
        let stride = match in_progress > 0 || pending {
            // What a node has written to a file of several is to be known at each sync point.
            true if self.knows_parted() => 1,
            // A file that stays open for the whole run must not cost an agreement at every step.
            true if self.facts.agreement.busy_ms > BUSY_MS => stride.min(BUSY_SYNC_POINTS_MAX),
            // One shared by collectives that come fast would let a rank read, without a word, older
            // content than a rank of another node has written before the collective between them.
            true => 1,
            false => stride,
        };
        let barriers = self.needs_barriers();
        let settle_ms = self.facts.shared.series.iter().map(|series| series.settle_ms).max();
        let agreement = &mut self.facts.agreement;
        agreement.streams.next_after(stream, stride);
        agreement.streams.let_barriers_carry(stream, barriers);
        agreement.since_conference_ms += elapsed_ms;
        let quiet_ms = agreement.since_conference_ms;
        let settled = in_progress > 0 && quiet_ms >= settle_ms.unwrap_or(0);
        let settled = settled && encoding != Stage::Goes;
        let urgent = changed > 1;
        let free = busy == 0 && (pending || settled);
        let waited = (pending || in_progress > 0) && quiet_ms >= CONFERENCE_MS;
        let trusts = self.trust.trust_due_ms(&self.facts).is_some_and(|due_ms| quiet_ms >= due_ms);
        let confers = urgent || free || waited || trusts || encoding == Stage::Ended;
        self.telling.agreed(in_progress, confers);
        if confers { Next::Confer } else { Next::Continue }
    }

    /// Ends the agreements for good: this rank cannot communicate any more.
    pub(crate) fn disable(&mut self) {
        self.facts.agreement.disable();
    }

    /// Takes the turn for the stream if it is free; without it the rank only takes part.
    pub(crate) fn words(&mut self, stream: usize) -> [i64; WORDS] {
        let mut words = [0; WORDS];
        words[..HEAD]
            .copy_from_slice(&self.facts.agreement.streams.begin(stream, self.facts.clock_ms));
        self.telling.begin();
        if self.facts.agreement.streams.has_turn(stream) {
            words[HEAD..].copy_from_slice(&self.own_words());
        }
        words
    }

    fn own_words(&mut self) -> [i64; OWN] {
        let elapsed_ms = self.facts.clock_ms.saturating_sub(self.facts.agreement.asked_ms);
        self.facts.agreement.asks_ms = self.facts.clock_ms;
        let in_progress = self.telling.take_word(&self.facts);
        let invalid = self.facts.in_progress().any(|dataset| dataset.why_invalid().is_some());
        [
            word(self.facts.agreement.count),
            word(elapsed_ms),
            word(in_progress),
            i64::from(self.facts.is_busy()),
            i64::from(invalid),
            self.halt,
            i64::from(self.facts.agreement.changed),
            self.encodings.encoding_word(&self.facts),
            std::mem::take(&mut self.facts.agreement.opening),
        ]
    }
}

fn word(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{MachineConfig, SeriesConfig};

    #[test]
    fn idle_points_carry_nothing_whether_they_are_told_or_counted() {
        for caches_parts in [false, true] {
            idle_points_carry_nothing(caches_parts);
        }
    }

    fn idle_points_carry_nothing(caches_parts: bool) {
        let config = MachineConfig::new(0, vec![0], vec![SeriesConfig::new("ckpt", true)]);
        let mut machine = Machine::new(MachineConfig { caches_parts, ..config }, &[], 0);
        assert_eq!(machine.idle_points(), 0, "the first one carries an agreement");
        let mut granted = 0;
        for now_ms in 1..60 {
            let mut told = machine.clone();
            let idle = machine.idle_points();
            let barriers = idle & BARRIERS_CARRY == 0;
            let idle = idle & !BARRIERS_CARRY;
            for at in 0..idle {
                let is_barrier = barriers && at % 2 == 1;
                let kind = if is_barrier { SyncKind::Barrier } else { SyncKind::Collective };
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
