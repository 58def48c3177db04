//! What a launch did and what it cost, told at its end when SCR_DEBUG asks for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::machine::{Outcome, SealPlan};
use super::runtime::Session;
use super::site::Links;
use crate::error::Result;
use crate::log;

/// What is counted on a rank. Those up to `Voided` are equal on all ranks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    /// Sync points that carried an agreement.
    Agreements,
    /// Agreements that led to a conference.
    Conferences,
    /// Seals that succeeded.
    Seals,
    /// Seals of datasets that had been sealed before.
    Amendments,
    /// Seals that the program or an error voided.
    Voided,
    /// Opens for writing that went to the cache.
    Cached,
    /// Opens for writing of matching files that went to the prefix.
    OnPrefix,
    /// Nanoseconds in the start.
    StartNs,
    /// Nanoseconds in agreements, what they decided included.
    AgreementNs,
    /// Nanoseconds in the end.
    EndNs,
}

const COUNTS: usize = Count::EndNs as usize + 1;

/// The counters of a rank.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: [AtomicU64; COUNTS],
}

impl Tally {
    /// One more.
    pub fn one(&self, count: Count) {
        self.counts[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The time since `begin`.
    pub fn time(&self, count: Count, begin: Instant) {
        let passed = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counts[count as usize].fetch_add(passed, Ordering::Relaxed);
    }

    /// A seal is over.
    pub fn sealed(&self, plan: &SealPlan, outcome: Outcome) {
        match outcome {
            Outcome::Done if plan.resealed => self.one(Count::Amendments),
            Outcome::Done => self.one(Count::Seals),
            Outcome::Touched | Outcome::Failed => self.one(Count::Voided),
        }
    }

    fn get(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let words = self.counts.iter().map(|count| count.load(Ordering::Relaxed).to_be_bytes());
        words.flatten().collect()
    }
}

/// All ranks' sum and largest value of one counter.
fn over_ranks(all: &[Vec<u8>], count: Count) -> (u64, u64) {
    let at = count as usize * 8;
    let words = all.iter().filter_map(|bytes| bytes.get(at..at + 8)?.try_into().ok());
    let words = words.map(u64::from_be_bytes);
    words.fold((0, 0), |(sum, most), word| (sum.saturating_add(word), most.max(word)))
}

impl Session {
    /// Rank 0 tells, if asked to (SCR_DEBUG, the same on all ranks). Collective.
    ///
    /// # Errors
    /// Communication failed.
    pub(super) fn tell_tally(&self, links: &Links) -> Result<()> {
        if log::level() < 1 {
            return Ok(());
        }
        let all = links.world.all_gather(&self.tally.to_bytes())?;
        if self.site.rank != 0 {
            return Ok(());
        }
        let seconds = |count| Duration::from_nanos(over_ranks(&all, count).1).as_secs_f64();
        let own = |count| self.tally.get(count);
        log::message(
            1,
            format_args!(
                "in this run: {} sealed, {} amended, {} seals voided; files opened for writing: {} \
                 in cache, {} on the prefix; {} agreements, {} conferences; seconds: {:.3} start, \
                 {:.3} agreements and seals, {:.3} end",
                own(Count::Seals),
                own(Count::Amendments),
                own(Count::Voided),
                over_ranks(&all, Count::Cached).0,
                over_ranks(&all, Count::OnPrefix).0,
                own(Count::Agreements),
                own(Count::Conferences),
                seconds(Count::StartNs),
                seconds(Count::AgreementNs),
                seconds(Count::EndNs),
            ),
        );
        Ok(())
    }
}
