//! Where ranks agree whose threads make collective calls on several communicators.
//!
//! Only on one communicator do all ranks pass collectives in the same order. So each communicator
//! of all ranks is a *stream*, and every k-th call of a stream carries an agreement, on a
//! communicator of ours. Two rules make that safe whatever the threads of the program do:
//! * A call waits for nothing but the same call of the same stream on the other ranks, which the
//!   program's own call needs as well. So nobody waits where the program would not.
//! * Ranks act on what they have agreed on only if each had its *turn* at that very call. A rank
//!   has one turn; a call takes it if it is free, never waits for it, and gives it back when all is
//!   done. So all ranks do the same things in the same order: had one done X before Y, and another
//!   Y before X, the one would have had its turn at X when the other had it at Y, and neither would
//!   be done.
//!
//! A thread may sit for hours in a call that ends the work of all, and is not to keep its turn
//! while others are on their way. So where several threads of a rank make such calls, they *meet*
//! first (one more reduction), and take turns when all are there. Where MPI lets one thread
//! communicate, all communicators are one stream. All of this is pure: no MPI, no clock.

/// Streams at a time.
pub const STREAMS: usize = 16;
/// The stream of MPI_COMM_WORLD, and of all where one thread communicates.
pub const WORLD: usize = 0;
/// The stream of the program's calls of SCR, which all ranks make.
pub const CALLS: usize = STREAMS - 1;
/// Words that a stream adds to an agreement; reduced by maximum, as all are.
pub const HEAD: usize = 6;

/// Has the turn while a communicator gets its place.
const SEEKING: usize = STREAMS;

/// What the program calls at a sync point; the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncKind {
    /// Every k-th carries an agreement.
    Collective,
    /// Always carries one.
    Constructor,
    /// Carries one where agreements come every few sync points anyway, or where all have agreed on
    /// that: a program passes a barrier before it opens or reads what other nodes have written.
    Barrier,
}

/// What a sync point carries; the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Nothing: the program's own call follows.
    Nothing,
    /// An agreement.
    Agreement,
    /// An agreement, when all ranks are there.
    Meeting,
}

/// What follows from an agreement; the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamNews {
    /// All ranks have their turn here: they act, then each calls [`Streams::end_turn`].
    Acts,
    /// Some rank does something else at this moment. Nothing was agreed on.
    ShutOut,
    /// Some rank takes no part in agreements any more: none in this stream from now on.
    Ended,
    /// The ranks do not pass the same calls: no agreement in this stream from now on.
    Differ {
        /// Largest count on any rank.
        most: i64,
        /// Smallest.
        least: i64,
    },
}

/// One communicator's account; all but `asked_ms` is equal on all ranks.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    is_open: bool,
    count: u64,
    next_at: u64,
    last_at: u64,
    /// When this rank took part in the last agreement.
    asked_ms: u64,
    /// Several threads of some rank make collective calls.
    meets: bool,
    /// Each barrier carries an agreement.
    barriers: bool,
}

/// The streams of one rank.
#[derive(Debug, Clone)]
pub struct Streams {
    all: [Account; STREAMS],
    /// Up to so many calls between two agreements each barrier carries one.
    barrier_stride: u64,
    /// The stream that has the turn.
    turn: Option<usize>,
    /// The thread whose call was the last; 0: there was none.
    thread: u64,
    /// There was another one before.
    several: bool,
    /// This rank takes no part in agreements any more, which the others are to hear.
    ended: bool,
}

impl Streams {
    /// Makes those of a rank at its start: there are [`WORLD`] and [`CALLS`].
    pub fn new(barrier_stride: u64, now_ms: u64) -> Self {
        let mut streams = Streams {
            all: [Account::default(); STREAMS],
            barrier_stride,
            turn: None,
            thread: 0,
            several: false,
            ended: false,
        };
        streams.open(WORLD, now_ms);
        streams.open(CALLS, now_ms);
        streams
    }

    fn open(&mut self, stream: usize, now_ms: u64) {
        let fresh = Account { is_open: true, next_at: 1, asked_ms: now_ms, ..Account::default() };
        self.all[stream] = fresh;
    }

    /// Frees the place of a stream for another one, as soon as all ranks say so.
    pub fn close(&mut self, stream: usize) {
        self.all[stream].is_open = false;
    }

    /// Takes the turn to seek a place for a communicator, at a call of it at which all ranks are
    /// there. Returns the free places of this rank as bits, none if it has no turn.
    pub fn seek(&mut self) -> u64 {
        if self.ended || self.turn.is_some() {
            return 0;
        }
        self.turn = Some(SEEKING);
        let free = self.all.iter().enumerate().filter(|(_, stream)| !stream.is_open);
        free.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// Gives the communicator the first of the places that are free on all ranks; gives the turn
    /// back.
    pub fn place(&mut self, on_all: u64, now_ms: u64) -> Option<usize> {
        if self.turn == Some(SEEKING) {
            self.turn = None;
        }
        let place = on_all.trailing_zeros() as usize;
        if place >= STREAMS {
            return None;
        }
        self.open(place, now_ms);
        Some(place)
    }

    /// Counts a call that `thread` of the program is about to make, and tells what it carries.
    pub fn pass(&mut self, stream: usize, kind: SyncKind, thread: u64) -> Carries {
        self.several |= self.thread != 0 && self.thread != thread;
        self.thread = thread;
        let one = &mut self.all[stream];
        one.count += 1;
        let due = match kind {
            SyncKind::Constructor => true,
            SyncKind::Barrier if one.barriers => true,
            SyncKind::Barrier if one.next_at - one.last_at <= self.barrier_stride => true,
            _ => one.count >= one.next_at,
        };
        match (one.is_open && due, one.meets) {
            (false, _) => Carries::Nothing,
            (true, false) => Carries::Agreement,
            (true, true) => Carries::Meeting,
        }
    }

    /// Counts calls that carried nothing, as [`Streams::idle`] has said.
    pub fn passed(&mut self, stream: usize, calls: u64) {
        self.all[stream].count += calls;
    }

    /// Counts the collectives from now on that carry nothing, whatever happens, and so do barriers
    /// unless [`Streams::barriers_carry`].
    pub fn idle(&self, stream: usize) -> u64 {
        let one = &self.all[stream];
        let idle = one.is_open && one.next_at - one.last_at > self.barrier_stride;
        if idle { one.next_at.saturating_sub(one.count + 1) } else { 0 }
    }

    /// Tells whether each barrier of the stream carries an agreement.
    pub fn barriers_carry(&self, stream: usize) -> bool {
        self.all[stream].barriers
    }

    /// Lets each barrier of the stream carry an agreement, or not, from now on: all have agreed.
    pub fn let_barriers_carry(&mut self, stream: usize, carry: bool) {
        self.all[stream].barriers = carry;
    }

    /// Calls since the last agreement of the stream.
    pub fn since_agreement(&self, stream: usize) -> u64 {
        let one = &self.all[stream];
        (one.count - one.last_at).max(1)
    }

    /// Takes the turn for the stream if it is free, and returns the stream's words for the
    /// agreement: its count and the negative, milliseconds since its last one, several threads, no
    /// turn, ended.
    pub fn begin(&mut self, stream: usize, now_ms: u64) -> [i64; HEAD] {
        if !self.ended {
            self.turn.get_or_insert(stream);
        }
        let own = self.has_turn(stream);
        let one = &mut self.all[stream];
        let elapsed_ms = now_ms.saturating_sub(one.asked_ms);
        one.asked_ms = now_ms;
        let count = i64::try_from(one.count).unwrap_or(i64::MAX);
        let elapsed_ms = i64::try_from(elapsed_ms).unwrap_or(i64::MAX);
        let [several, no_turn, ended] = [self.several, !own, self.ended].map(i64::from);
        [count, -count, elapsed_ms, several, no_turn, ended]
    }

    /// Takes the turn for [`CALLS`], until [`Streams::end_turn`]. `false`: it is taken.
    pub fn take_turn(&mut self) -> bool {
        *self.turn.get_or_insert(CALLS) == CALLS
    }

    /// Tells whether this rank has its turn in the stream.
    pub fn has_turn(&self, stream: usize) -> bool {
        self.turn == Some(stream)
    }

    /// Takes in the all-reduced words.
    pub fn hear(&mut self, stream: usize, words: [i64; HEAD]) -> StreamNews {
        let [most, least, _, several, no_turn, ended] = words;
        let one = &mut self.all[stream];
        if ended > 0 || most != -least {
            one.is_open = false;
            self.ended = true;
            self.end_turn(stream);
            return if ended > 0 {
                StreamNews::Ended
            } else {
                StreamNews::Differ { most, least: -least }
            };
        }
        one.meets = several > 0;
        if no_turn == 0 {
            return StreamNews::Acts;
        }
        // Two that meet in each other's way must not do so again and again.
        self.next_after(stream, 1 + stream as u64);
        self.end_turn(stream);
        StreamNews::ShutOut
    }

    /// Lets the call that is `stride` after this one carry the next agreement of the stream.
    pub fn next_after(&mut self, stream: usize, stride: u64) {
        let one = &mut self.all[stream];
        one.last_at = one.count;
        one.next_at = one.count + stride;
    }

    /// Gives the turn back: what all have agreed on is done.
    pub fn end_turn(&mut self, stream: usize) {
        if self.has_turn(stream) {
            self.turn = None;
        }
    }

    /// Notes that this rank takes no part in agreements any more. The others hear of it in each
    /// stream at its next agreement, and nobody waits there after that.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Tells whether another thread than `thread` makes sync points, too, or instead.
    pub fn has_other_than(&self, thread: u64) -> bool {
        self.several || (self.thread != 0 && self.thread != thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gets_a_place_has_it_until_it_is_freed() {
        let mut streams = Streams::new(8, 0);
        let all = streams.seek();
        assert_eq!(all, 0x7ffe);
        assert_eq!(streams.seek(), 0, "one at a time");
        assert_eq!(streams.place(all & 0xff0, 0), Some(4));
        assert_eq!(streams.seek(), 0x7fee);
        assert_eq!(streams.place(0, 0), None);
        streams.close(4);
        assert_eq!(streams.seek(), 0x7ffe);
    }

    #[test]
    fn one_turn_at_a_time() {
        let mut streams = Streams::new(8, 0);
        let all = streams.seek();
        assert_eq!(streams.place(all, 0), Some(1));
        let other = Streams::new(8, 0).begin(WORLD, 0);
        streams.pass(WORLD, SyncKind::Barrier, 1);
        streams.pass(1, SyncKind::Barrier, 1);
        let own = streams.begin(WORLD, 0);
        assert_eq!((own[4], other[4]), (0, 0));
        assert_eq!(streams.begin(1, 0)[4], 1, "the turn is taken");
        assert_eq!(streams.hear(1, [1, -1, 0, 0, 1, 0]), StreamNews::ShutOut);
        assert_eq!(streams.hear(WORLD, own), StreamNews::Acts);
        assert_eq!(streams.seek(), 0);
        streams.end_turn(WORLD);
        assert_ne!(streams.seek(), 0);
    }

    #[test]
    fn a_rank_that_ends_is_heard_in_each_stream() {
        let mut streams = Streams::new(8, 0);
        streams.end();
        assert_eq!(streams.pass(WORLD, SyncKind::Barrier, 1), Carries::Agreement);
        let own = streams.begin(WORLD, 0);
        assert_eq!((own[4], own[5]), (1, 1));
        assert_eq!(streams.hear(WORLD, own), StreamNews::Ended);
        assert_eq!(streams.pass(WORLD, SyncKind::Constructor, 1), Carries::Nothing);
    }
}
