//! Carries out a program, its threads interleaved at random, and with it what the engine does at
//! the program's calls: the same steps over the same [`Streams`], with calls that wait as those of
//! MPI do.

use std::collections::{HashMap, HashSet, VecDeque};

use fastrand::Rng;
use scr_core::streams::{Carries, HEAD, StreamNews, Streams, SyncKind, WORLD};

use super::program::{Op, Program};

/// A mistake in the protocol that is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A call waits until its rank has no other turn.
    WaitsForTurn,
    /// Ranks act though not all have their turn.
    ActsAnyway,
    KeepsTurn,
    /// A rank's next agreement comes at another call than the others'.
    OwnStride,
    /// A rank that has ended takes no part from then on.
    EndsSilently,
    /// Two communicators seek a place at the same time.
    PlacesAnyway,
    /// No call waits for the others before it takes its turn.
    NeverMeets,
}

/// Where calls wait for those of the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Channel {
    /// A communicator of the program.
    Program(usize),
    /// That of a stream.
    Stream(usize),
    /// What ranks act over.
    Acts,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Between,
    Pausing(u32),
    /// Of a communicator that has no place: all come; what they have.
    PlaceMeets,
    Places,
    Meets,
    Agrees,
    /// So many steps are left.
    Acts(u32),
    Own,
}

struct Thread {
    ops: VecDeque<Op>,
    at: At,
    /// The call that it is in.
    call: Option<(usize, SyncKind)>,
    /// What it waits for.
    waits: Option<(Channel, usize)>,
}

struct Rank {
    threads: Vec<Thread>,
    streams: Streams,
    /// Of each communicator: calls without a place, and the place.
    known: Vec<(u64, Option<usize>)>,
    freed: Vec<usize>,
    acting: bool,
    acts: usize,
    silent: bool,
    /// Calls made over each channel.
    made: HashMap<Channel, usize>,
    inside: HashSet<Channel>,
}

/// One call of all ranks.
#[derive(Default)]
struct Meeting {
    what: Option<(At, usize)>,
    came: usize,
    words: [i64; HEAD],
    bits: u64,
}

/// What has happened, or what went wrong.
pub type Checked<T> = Result<T, String>;

pub struct World {
    ranks: Vec<Rank>,
    meetings: HashMap<(Channel, usize), Meeting>,
    sent: HashSet<usize>,
    rng: Rng,
    mistake: Option<Mistake>,
    /// Without us.
    plain: bool,
}

/// Carries out the program; returns on how many things the ranks have acted.
pub fn run(program: &Program, seed: u64, plain: bool, mistake: Option<Mistake>) -> Checked<usize> {
    let rank = |threads: &Vec<VecDeque<Op>>| {
        let thread = |ops: &VecDeque<Op>| Thread {
            ops: ops.clone(),
            at: At::Between,
            call: None,
            waits: None,
        };
        let mut known = vec![(0, None); program.comms];
        known[0] = (0, Some(WORLD));
        Rank {
            threads: threads.iter().map(thread).collect(),
            streams: Streams::new(2, 0),
            known,
            freed: Vec::new(),
            acting: false,
            acts: 0,
            silent: false,
            made: HashMap::new(),
            inside: HashSet::new(),
        }
    };
    let mut world = World {
        ranks: program.ranks.iter().map(rank).collect(),
        meetings: HashMap::new(),
        sent: HashSet::new(),
        rng: Rng::with_seed(seed),
        mistake,
        plain,
    };
    world.run()
}

impl World {
    fn run(&mut self) -> Checked<usize> {
        let threads = (0..self.ranks.len())
            .flat_map(|rank| (0..self.ranks[rank].threads.len()).map(move |thread| (rank, thread)));
        let all: Vec<(usize, usize)> = threads.collect();
        loop {
            let ready: Vec<_> = all.iter().filter(|one| self.is_ready(**one)).collect();
            if ready.is_empty() {
                break;
            }
            // Most often one rank goes on for a while, and the others are late.
            let (rank, thread) = *ready[self.rng.usize(..ready.len())];
            for _ in 0..self.rng.usize(1..12) {
                if self.is_ready((rank, thread)) {
                    self.step(rank, thread)?;
                }
            }
        }
        for (rank, thread) in all {
            let one = &self.ranks[rank].threads[thread];
            if one.at != At::Between || !one.ops.is_empty() {
                return Err(format!("hangs: rank {rank} thread {thread} at {:?}", one.at));
            }
        }
        let acts = self.ranks[0].acts;
        if self.ranks.iter().any(|rank| rank.acts != acts) {
            return Err("not all ranks have done the same".to_string());
        }
        Ok(acts)
    }

    fn is_ready(&self, (rank, thread): (usize, usize)) -> bool {
        let one = &self.ranks[rank].threads[thread];
        if let Some(key) = &one.waits {
            if self.meetings[key].came < self.ranks.len() {
                return false;
            }
            let other =
                self.ranks[rank].threads.iter().enumerate().any(|(at, other)| {
                    at != thread && matches!(other.at, At::Agrees | At::Acts(_))
                });
            // It would take its turn next.
            return one.at != At::Meets || self.mistake != Some(Mistake::WaitsForTurn) || !other;
        }
        match (one.at, one.ops.front()) {
            (At::Between, Some(Op::Receive(number))) => self.sent.contains(number),
            (At::Between, front) => front.is_some(),
            _ => true,
        }
    }

    /// Enters a call of all ranks, which must be the same on all.
    fn enter(
        &mut self,
        (rank, thread): (usize, usize),
        channel: Channel,
        at: At,
        (words, bits): ([i64; HEAD], u64),
    ) -> Checked<()> {
        let own = &mut self.ranks[rank];
        let comm = own.threads[thread].call.map_or(0, |(comm, _)| comm);
        if !own.inside.insert(channel) {
            return Err(format!("two threads of rank {rank} in {channel:?}"));
        }
        let made = own.made.entry(channel).or_default();
        let key = (channel, *made);
        *made += 1;
        own.threads[thread].waits = Some(key);
        own.threads[thread].at = at;
        let meeting = self.meetings.entry(key).or_insert_with(|| Meeting {
            words: [i64::MIN; HEAD],
            bits: u64::MAX,
            ..Meeting::default()
        });
        if *meeting.what.get_or_insert((at, comm)) != (at, comm) {
            return Err(format!("{:?} and {:?} meet", meeting.what, (at, comm)));
        }
        meeting.came += 1;
        meeting.bits &= bits;
        for (most, word) in meeting.words.iter_mut().zip(words) {
            *most = (*most).max(word);
        }
        Ok(())
    }

    fn step(&mut self, rank: usize, thread: usize) -> Checked<()> {
        let one = &mut self.ranks[rank].threads[thread];
        let mut heard = ([0; HEAD], 0);
        if let Some(key) = one.waits.take() {
            heard = (self.meetings[&key].words, self.meetings[&key].bits);
            self.ranks[rank].inside.remove(&key.0);
        }
        let own = &mut self.ranks[rank];
        let me = (rank, thread);
        match own.threads[thread].at {
            At::Between => self.begin(me),
            At::Pausing(left) => {
                own.threads[thread].at = if left > 1 { At::Pausing(left - 1) } else { At::Between };
                Ok(())
            }
            At::PlaceMeets => {
                let comm = own.threads[thread].call.map_or(0, |(comm, _)| comm);
                let mut places = own.streams.seek();
                if places == 0 && self.mistake == Some(Mistake::PlacesAnyway) {
                    let mut copy = own.streams.clone();
                    copy.place(0, 0);
                    places = copy.seek();
                }
                self.enter(me, Channel::Program(comm), At::Places, ([0; HEAD], places))
            }
            At::Places => {
                let comm = own.threads[thread].call.map_or(0, |(comm, _)| comm);
                own.known[comm].1 = own.streams.place(heard.1, 0);
                self.pass(me)
            }
            At::Meets => self.agree(me),
            At::Agrees => self.hear(me, heard.0),
            At::Acts(left) => self.act(me, left),
            At::Own => {
                own.threads[thread].at = At::Between;
                own.threads[thread].call = None;
                Ok(())
            }
        }
    }

    fn begin(&mut self, me @ (rank, thread): (usize, usize)) -> Checked<()> {
        let own = &mut self.ranks[rank];
        match own.threads[thread].ops.pop_front() {
            Some(Op::Call(comm, kind)) => {
                own.threads[thread].call = Some((comm, kind));
                for place in own.freed.drain(..) {
                    own.streams.close(place);
                }
                let (calls, place) = &mut own.known[comm];
                if self.plain || place.is_some() {
                    return self.pass(me);
                }
                *calls += 1;
                match calls.is_power_of_two() {
                    true => self.enter(me, Channel::Program(comm), At::PlaceMeets, ([0; HEAD], 0)),
                    false => self.pass(me),
                }
            }
            Some(Op::Free(comm)) => {
                own.freed.extend(own.known[comm].1.take());
                Ok(())
            }
            Some(Op::Send(number)) => {
                self.sent.insert(number);
                Ok(())
            }
            Some(Op::Pause(moments)) => {
                own.threads[thread].at = At::Pausing(moments);
                Ok(())
            }
            Some(Op::End) => {
                own.streams.end();
                own.silent = self.mistake == Some(Mistake::EndsSilently);
                Ok(())
            }
            Some(Op::Receive(_)) | None => Ok(()),
        }
    }

    fn place_of(&self, (rank, thread): (usize, usize)) -> Option<(usize, SyncKind)> {
        let (comm, kind) = self.ranks[rank].threads[thread].call?;
        Some((self.ranks[rank].known[comm].1?, kind))
    }

    fn pass(&mut self, me @ (rank, thread): (usize, usize)) -> Checked<()> {
        let Some((place, kind)) = self.place_of(me).filter(|_| !self.plain) else {
            return self.own(me);
        };
        let own = &mut self.ranks[rank];
        let carries = own.streams.pass(place, kind, thread as u64 + 1);
        match carries {
            _ if own.silent => self.own(me),
            Carries::Nothing => self.own(me),
            Carries::Agreement if self.mistake != Some(Mistake::WaitsForTurn) => self.agree(me),
            _ => self.enter(me, Channel::Stream(place), At::Meets, ([0; HEAD], 0)),
        }
    }

    fn agree(&mut self, me @ (rank, _): (usize, usize)) -> Checked<()> {
        let Some((place, _)) = self.place_of(me) else { return self.own(me) };
        let words = self.ranks[rank].streams.begin(place, 0);
        self.enter(me, Channel::Stream(place), At::Agrees, (words, 0))
    }

    fn hear(&mut self, me @ (rank, _): (usize, usize), mut words: [i64; HEAD]) -> Checked<()> {
        let Some((place, _)) = self.place_of(me) else { return self.own(me) };
        match self.mistake {
            Some(Mistake::ActsAnyway) => words[4] = 0,
            Some(Mistake::NeverMeets) => words[3] = 0,
            _ => {}
        }
        let own = &mut self.ranks[rank];
        match own.streams.hear(place, words) {
            StreamNews::Acts if own.acting => Err(format!("rank {rank} does two things at once")),
            StreamNews::Acts => {
                own.acting = true;
                let steps = 1 + words[0] as u32 % 3;
                self.enter(me, Channel::Acts, At::Acts(steps), ([0; HEAD], 0))
            }
            StreamNews::ShutOut | StreamNews::Ended => self.own(me),
            StreamNews::Differ { most, least } => Err(format!("counts are {least} to {most}")),
        }
    }

    fn act(&mut self, me @ (rank, _): (usize, usize), left: u32) -> Checked<()> {
        if left > 1 {
            return self.enter(me, Channel::Acts, At::Acts(left - 1), ([0; HEAD], 0));
        }
        let Some((place, _)) = self.place_of(me) else { return self.own(me) };
        let own = &mut self.ranks[rank];
        own.acting = false;
        own.acts += 1;
        let more = if self.mistake == Some(Mistake::OwnStride) { rank as u64 } else { 0 };
        let stride = 1 + own.acts as u64 % 5 + more;
        own.streams.next_after(place, stride);
        if self.mistake != Some(Mistake::KeepsTurn) {
            own.streams.end_turn(place);
        }
        self.own(me)
    }

    /// The program's own call.
    fn own(&mut self, me @ (rank, thread): (usize, usize)) -> Checked<()> {
        let comm = self.ranks[rank].threads[thread].call.map_or(0, |(comm, _)| comm);
        self.enter(me, Channel::Program(comm), At::Own, ([0; HEAD], 0))
    }
}
