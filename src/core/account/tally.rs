//! What a launch did and what it cost, told at its end when SCR_DEBUG asks for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::comm::{Comm, words};
use crate::error::Result;
use crate::files::Pace;
use crate::log;
use crate::machine::{FileShare, Outcome, Reason, SealPlan, WORDS};
use crate::records::RunPassed;

/// What is counted on a rank. Counts up to `Voided` are equal on all ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Count {
    /// Sync points that carried an agreement.
    Agreements,
    Conferences,
    Seals,
    /// Those of the last ones, in a row, of which the caches have nothing.
    PassedSeals,
    Amendments,
    Voided,
    Cached,
    /// Opens for writing of matching files that went to the prefix.
    OnPrefix,
    /// Files that were to be cached and went to the prefix: for want of room, or because no
    /// agreement came.
    FellBack,
    StartNs,
    /// Includes what the agreements decided.
    AgreementNs,
    EndNs,
}

const COUNTS: usize = Count::EndNs as usize + 1;
const WORDS_OF_RANK: usize = COUNTS + 2 * Reason::ALL.len();

const TRIES: usize = 51;

#[derive(Debug)]
pub(crate) struct Tally {
    counts: [AtomicU64; COUNTS],
    amended: Mutex<BTreeMap<usize, u64>>,
    /// Files and bytes that went to the prefix by themselves.
    passed: [[AtomicU64; 2]; Reason::ALL.len()],
    examples: [OnceLock<String>; Reason::ALL.len()],
    begun: Instant,
    /// How fast this rank has done its part of the seals.
    pub sealed: Pace,
}

impl Tally {
    pub fn new() -> Tally {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        let passed = std::array::from_fn(|_| Default::default());
        let examples = std::array::from_fn(|_| OnceLock::new());
        let (begun, sealed) = (Instant::now(), Pace::default());
        Tally { counts, amended: Mutex::default(), passed, examples, begun, sealed }
    }

    pub fn one(&self, count: Count) {
        self.counts[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the file `name` of so many bytes, which has gone to the prefix by itself.
    pub fn passed(&self, reason: Reason, name: &str, bytes: u64) {
        self.passed_share(reason, name, FileShare { files: 1, bytes });
    }

    /// Counts this rank's share of such a file.
    pub fn passed_share(&self, reason: Reason, name: &str, share: FileShare) {
        self.examples[reason.index()].get_or_init(|| name.to_owned());
        let [files, sum] = &self.passed[reason.index()];
        files.fetch_add(share.files, Ordering::Relaxed);
        sum.fetch_add(share.bytes, Ordering::Relaxed);
    }

    /// Returns what has gone to the prefix by itself on this rank, by the reason's words.
    pub fn passed_here(&self) -> BTreeMap<String, RunPassed> {
        let one = |(at, reason): (usize, Reason)| {
            let [files, bytes] = self.passed[at].each_ref().map(|sum| sum.load(Ordering::Relaxed));
            let example = self.examples[at].get().cloned().unwrap_or_default();
            let passed = RunPassed { files, bytes, example };
            (files > 0 || bytes > 0).then(|| (reason.text().to_owned(), passed))
        };
        Reason::ALL.into_iter().enumerate().filter_map(one).collect()
    }

    pub fn time(&self, count: Count, begin: Instant) {
        let passed = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counts[count as usize].fetch_add(passed, Ordering::Relaxed);
    }

    pub fn sealed(&self, plan: &SealPlan, outcome: Outcome) {
        match outcome {
            Outcome::Done if plan.resealed => {
                self.one(Count::Amendments);
                let mut amended = self.amended.lock().unwrap_or_else(PoisonError::into_inner);
                *amended.entry(plan.key.series).or_default() += 1;
            }
            Outcome::Done => {
                self.one(Count::Seals);
                match plan.on_prefix {
                    true => self.one(Count::PassedSeals),
                    false => {
                        self.counts[Count::PassedSeals as usize].store(0, Ordering::Relaxed);
                    }
                }
            }
            Outcome::Touched | Outcome::Failed => self.one(Count::Voided),
        }
    }

    pub fn get(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    fn most_amended(&self) -> u64 {
        let amended = self.amended.lock().unwrap_or_else(PoisonError::into_inner);
        amended.values().copied().max().unwrap_or(0)
    }

    fn words(&self) -> [u64; WORDS_OF_RANK] {
        let mut all = self.counts.iter().chain(self.passed.iter().flatten());
        std::array::from_fn(|_| all.next().map_or(0, |count| count.load(Ordering::Relaxed)))
    }
}

fn over_ranks(all: &[[u64; WORDS_OF_RANK]], count: usize) -> (u64, u64) {
    let words = all.iter().map(|words| words[count]);
    words.fold((0, 0), |(sum, most), word| (sum.saturating_add(word), most.max(word)))
}

/// The median cost of an agreement where nobody has to be waited for. Collective.
fn measure_allreduce(world: &dyn Comm) -> Result<Duration> {
    let mut times = Vec::with_capacity(TRIES);
    for _ in 0..TRIES {
        let begin = Instant::now();
        world.all_max(&mut [0; WORDS])?;
        times.push(begin.elapsed());
    }
    times.sort();
    Ok(times[TRIES / 2])
}

impl Tally {
    /// Says, on rank 0, what the launch did and what it cost, if SCR_DEBUG asks for it on all
    /// ranks. Collective.
    pub fn tell(&self, world: &dyn Comm) -> Result<()> {
        if log::level() < 1 {
            return Ok(());
        }
        let in_all = self.begun.elapsed();
        let all = words::all_gather(world, self.words())?;
        let allreduce = measure_allreduce(world)?;
        if world.rank() != 0 {
            return Ok(());
        }
        let seconds =
            |count| Duration::from_nanos(over_ranks(&all, count as usize).1).as_secs_f64();
        let own = |count| self.get(count);
        log::message(
            1,
            format_args!(
                "in this run: {} sealed, {} amended ({} in one series), {} seals voided; files \
                 opened for writing: {} in cache, {} on the prefix; {} fell back to it; {} \
                 agreements, {} conferences; an allreduce takes {:.1} us; seconds: {:.3} start, \
                 {:.3} agreements and seals, {:.3} end, {:.3} in all",
                own(Count::Seals),
                own(Count::Amendments),
                self.most_amended(),
                own(Count::Voided),
                over_ranks(&all, Count::Cached as usize).0,
                over_ranks(&all, Count::OnPrefix as usize).0,
                over_ranks(&all, Count::FellBack as usize).0,
                own(Count::Agreements),
                own(Count::Conferences),
                1e6 * allreduce.as_secs_f64(),
                seconds(Count::StartNs),
                seconds(Count::AgreementNs),
                seconds(Count::EndNs),
                in_all.as_secs_f64(),
            ),
        );
        for (reason, files, bytes) in passed_of(&all) {
            let text = reason.text();
            log::message(1, format_args!("on the prefix: {files} files, {bytes} bytes: {text}"));
        }
        Ok(())
    }
}

fn passed_of(all: &[[u64; WORDS_OF_RANK]]) -> impl Iterator<Item = (Reason, u64, u64)> {
    Reason::ALL.into_iter().enumerate().filter_map(|(at, reason)| {
        let sum = |which: usize| over_ranks(all, COUNTS + 2 * at + which).0;
        Some((reason, sum(0), sum(1))).filter(|(_, files, _)| *files > 0)
    })
}
