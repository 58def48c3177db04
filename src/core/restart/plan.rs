//! What becomes of each dataset at a start, decided without a look at a file. What has to be known
//! or done first is a verdict, too; whoever does it (`carry_out.rs`) tells what he found, and asks
//! again, until all is settled.
//!
//! A start looks at the current one of the index, then backwards (the program flow,
//! `scr_fetch_sync`); at newer ones, and those that the run has left, only when none of these is
//! good. One that an earlier start found damaged has its turn like the others, unlike in the
//! concepts: what failed for a passing reason would be lost for good.

use std::collections::{BTreeMap, BTreeSet};

use super::candidates::{Begin, Candidate, Candidates};
use super::verdict::{Current, Fate, FilesFound, HiddenBecause, LookResult, LookedFor, StartPlan};
use crate::records::{FileNames, RecordKey};
use crate::restart::index::{Index, IndexedDataset};

/// Checkpoints of a series that a start looks at, newest first, until one is good.
const LOOKED_AT_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cached {
    pub id: u64,
    /// `None` if the patterns do not have it any more.
    pub series: Option<usize>,
    pub key: RecordKey,
    pub on_prefix: bool,
    pub fetched: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    pub chooses: bool,
    pub chosen: Option<u64>,
    /// Nothing on the prefix is looked at (SCR_FETCH=0).
    pub no_looks: bool,
    pub fetchable: BTreeSet<u64>,
    pub ends: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Restart {
    pub index: Index,
    pub cached: Vec<Cached>,
    pub wishes: Wishes,
    /// Id and series of datasets that are whole, but have no room where their ranks run.
    pub stranded: Vec<(u64, String)>,
    pub series: usize,
    /// The current one of the index when the start began, or the one that the run went back to.
    pub begin: Option<u64>,
    /// As of before anything was looked at.
    /// As of before anything was looked at.
    courses: Vec<Candidates<IndexedDataset>>,
    newer_than_chosen: Vec<(u64, bool)>,
    gone_on: bool,
    /// Of candidates; with whether the program would restart from them.
    looks: BTreeMap<u64, (LookResult, bool)>,
    looks_to_hide: BTreeMap<u64, LookResult>,
    looks_to_stay: BTreeMap<u64, LookResult>,
    brought_back: BTreeMap<u64, bool>,
    put_back: BTreeSet<u64>,
}

enum TurnOutcome {
    Good,
    None,
    Open,
}

impl Restart {
    pub fn new(
        index: Index,
        series: usize,
        wishes: Wishes,
        stranded: Vec<(u64, String)>,
    ) -> Restart {
        Restart { index, series, wishes, stranded, ..Restart::default() }
    }

    /// Takes the facts as complete: what is older and newer than what the run begins with is told
    /// apart here, whatever looks find later.
    pub fn begin(&mut self) {
        let hidden = |one: &IndexedDataset| (one.id, one.key.id.is_empty());
        let chosen = self.wishes.chosen.unwrap_or(u64::MAX);
        let newer = self
            .index
            .listed
            .iter()
            .filter(|one| one.id > chosen && one.file_names == FileNames::Own);
        self.newer_than_chosen = newer.map(hidden).collect();
        self.gone_on = self.index.turn.is_some_and(|turn| {
            let stays = |one: &&Cached| one.series.is_none() || !turn.leaves(one.id);
            let cached = self.cached.iter().filter(stays).map(|one| one.id);
            self.index.restorable().map(|(id, _)| id).chain(cached).any(|id| id > turn.from)
        });
        let mut plan = StartPlan::default();
        self.by_the_user(&mut plan);
        let begin = self.limit();
        let is_cached = |id: u64| self.has(id) && !plan.is_withdrawn(id);
        let of_series = |series: usize| {
            let all = self.index.listed.iter().filter(|one| {
                let counts = matches!(one.file_names, FileNames::Own | FileNames::Kept)
                    && one.checkpoint.is_some();
                // A look would find nothing: it is the program that cannot use it.
                let serves = !one.refused || self.wishes.chosen == Some(one.id);
                counts && serves && one.series == Some(series)
            });
            begin.course(all.cloned(), |one| Candidate {
                id: one.id,
                is_cached: is_cached(one.id),
                is_left: one.abandoned_by.is_some_and(|by| by <= begin.id),
            })
        };
        self.courses = (0..self.series).map(of_series).collect();
    }

    fn limit(&self) -> Begin {
        let id = self.wishes.chosen.or(self.begin).unwrap_or(u64::MAX);
        Begin { id, is_firm: self.wishes.chosen.is_some(), ..Begin::ANYWHERE }
    }

    /// Returns what the user goes back to: of each series the newest that is not newer, if its
    /// files are kept beside and the cache has none that is as new.
    pub fn kept_for_chosen(&self) -> Vec<IndexedDataset> {
        let Some(limit) = self.wishes.chosen else { return Vec::new() };
        let of_series = |series: usize| {
            let counts = |one: &&IndexedDataset| {
                one.series == Some(series)
                    && one.id <= limit
                    && matches!(one.file_names, FileNames::Own | FileNames::Kept)
            };
            let newest = self
                .index
                .listed
                .iter()
                .find(counts)
                .filter(|one| one.file_names == FileNames::Kept)?;
            let mut cached = self.cached.iter().filter(|one| one.id <= limit);
            let has = cached.any(|one| one.id >= newest.id && one.series == Some(series));
            (!has).then(|| newest.clone())
        };
        (0..self.series).filter_map(of_series).collect()
    }

    /// Notes that the newest one of its series that had no room is on the prefix now, or cannot be
    /// written there.
    pub fn published(&mut self, id: u64) {
        let series = self.stranded.iter().find(|one| one.0 == id).map(|one| one.1.clone());
        self.stranded.retain(|one| Some(&one.1) != series.as_ref());
    }

    pub fn learn(&mut self, id: u64, depth: LookedFor, look: LookResult) {
        let is_bad = look.files != FilesFound::Right;
        if is_bad && depth != LookedFor::ToHide {
            self.index.flushed.retain(|one| *one != id);
        }
        if let LookedFor::Candidate { restarts } = depth {
            if look.files == FilesFound::Gone {
                self.index.gone.push(id);
            }
            if restarts && !is_bad {
                self.index.flushed.push(id); // whatever an earlier start has found
            }
        }
        if let Some(one) = self.index.listed.iter().find(|one| look.fetched && one.id == id) {
            let (series, key) = (one.series, one.key.clone());
            let at = self.cached.partition_point(|other| other.id < id);
            self.cached.insert(at, Cached { id, series, key, on_prefix: true, fetched: true });
        }
        match depth {
            LookedFor::ToStay => drop(self.looks_to_stay.insert(id, look)),
            LookedFor::ToHide => drop(self.looks_to_hide.insert(id, look)),
            LookedFor::Candidate { restarts } => drop(self.looks.insert(id, (look, restarts))),
        }
    }

    /// Notes whether the files of a kept one have their names back.
    pub fn brought_back(&mut self, id: u64, done: bool) {
        self.brought_back.insert(id, done);
    }

    /// Notes that files that newer ones have changed are again as they were with it, as far as
    /// possible.
    pub fn has_put_back(&mut self, id: u64) {
        self.put_back.insert(id);
    }

    pub fn plan(&self) -> StartPlan {
        let mut plan = StartPlan::default();
        self.publish(&mut plan);
        self.by_the_user(&mut plan);
        for (series, course) in self.courses.iter().enumerate().filter(|_| !self.wishes.no_looks) {
            self.search(series, course, &mut plan);
        }
        if plan.next().is_none() {
            (0..self.series).for_each(|series| self.stay(series, &mut plan));
        }
        let said: BTreeSet<u64> = plan.verdicts.iter().map(|(id, _)| *id).collect();
        let rest = self.cached.iter().map(|one| one.id).filter(|id| !said.contains(id));
        rest.for_each(|id| plan.say(id, Fate::Offer));
        plan
    }

    /// Publishes the newest of each series, if nothing newer can be had. A run that goes back to an
    /// older one has no use for it, and may need its room.
    fn publish(&self, plan: &mut StartPlan) {
        let is_left = |id: u64| self.index.turn.is_some_and(|turn| turn.leaves(id));
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        for (id, series) in self.stranded.iter().filter(|one| !is_left(one.0)) {
            let known = newest.entry(series).or_default();
            *known = (*id).max(*known);
        }
        let there = |series: &str| {
            let cached = self.cached.iter().map(|one| (one.id, &one.key));
            let all = cached.chain(self.index.restorable());
            all.filter(|one| one.1.series == series).map(|one| one.0).max().unwrap_or(0)
        };
        newest.retain(|series, id| !self.wishes.chooses && *id > there(series));
        newest.values().for_each(|id| plan.say(*id, Fate::PublishFromHolders));
    }

    /// Hides what is newer than the one that the user has chosen, or of a course that an earlier
    /// start has left.
    fn by_the_user(&self, plan: &mut StartPlan) {
        let known = |one: &&Cached| one.series.is_some();
        if let Some(limit) = self.wishes.chosen {
            for (id, has_no_id) in &self.newer_than_chosen {
                let look = self.looks_to_hide.get(id);
                plan.say(
                    *id,
                    match look {
                        // What has its names may be the user's own.
                        None if *has_no_id && !self.has(*id) => Fate::Look(LookedFor::ToHide),
                        Some(look) if look.anew => Fate::Leave,
                        _ => Fate::Hide(HiddenBecause::NewerThanChosen),
                    },
                );
            }
            let newer = self.cached.iter().filter(known).filter(|one| one.id > limit);
            let rest: Vec<u64> =
                newer.map(|one| one.id).filter(|id| !plan.is_withdrawn(*id)).collect();
            rest.into_iter()
                .for_each(|id| plan.say(id, Fate::Hide(HiddenBecause::NewerThanChosen)));
        } else if let Some(turn) = self.index.turn {
            let left =
                self.cached.iter().filter(known).filter(|one| turn.leaves(one.id) && !one.fetched);
            let reason = HiddenBecause::Left { gone_on: self.gone_on };
            left.rev().for_each(|one| plan.say(one.id, Fate::Hide(reason)));
        }
    }

    fn has(&self, id: u64) -> bool {
        self.cached.iter().any(|one| one.id == id && one.series.is_some())
    }

    fn offered<'a>(
        &'a self,
        series: usize,
        plan: &'a StartPlan,
    ) -> impl Iterator<Item = &'a Cached> {
        let of_series = self.cached.iter().filter(move |one| one.series == Some(series));
        of_series.filter(|one| !plan.is_withdrawn(one.id))
    }

    /// The candidates of a series have their turn until one is good; then those of another course
    /// are hidden. Whatever comes to the prefix becomes current, so that what is newer than the
    /// current one is of another course, unless somebody has written it anew without us.
    fn search(&self, series: usize, course: &Candidates<IndexedDataset>, plan: &mut StartPlan) {
        let begin = self.limit().id;
        // One that only the cache has is not among the candidates.
        let returned = self.index.returned_to == Some(begin)
            && self.offered(series, plan).any(|one| !one.fetched);
        match self.turn_of(series, &course.own, plan) {
            TurnOutcome::Open => return,
            TurnOutcome::None if !returned => {
                self.turn_of(series, &course.beyond, plan);
                return;
            }
            TurnOutcome::Good | TurnOutcome::None => {}
        }
        let there = course.beyond.iter().filter(|one| one.file_names == FileNames::Own);
        let (left, newer): (Vec<_>, Vec<_>) = there.partition(|one| one.id <= begin);
        for one in left.into_iter().chain(newer) {
            let is_newer = one.id > begin;
            let reason = match (is_newer, course.own.first()) {
                (true, _) => HiddenBecause::AfterCurrent { damaged: false },
                (false, Some(own)) => HiddenBecause::OtherCourse { own: own.id },
                (false, None) => continue,
            };
            let Some(look) = self.looks_to_hide.get(&one.id) else {
                plan.say(one.id, Fate::Look(LookedFor::ToHide));
                continue;
            };
            let gone = look.files == FilesFound::Gone;
            let damaged =
                look.files == FilesFound::Damaged || !self.index.flushed.contains(&one.id);
            let verdict = match reason {
                _ if gone || look.anew || (is_newer && !look.has_names) => Fate::Leave,
                HiddenBecause::AfterCurrent { .. } => {
                    Fate::Hide(HiddenBecause::AfterCurrent { damaged })
                }
                reason => Fate::Hide(reason),
            };
            plan.say(one.id, verdict);
        }
    }

    fn turn_of(
        &self,
        series: usize,
        candidates: &[IndexedDataset],
        plan: &mut StartPlan,
    ) -> TurnOutcome {
        // What the user has deleted or written anew he wants so.
        let (mut stays_so, mut damaged) = (false, false);
        for one in candidates.iter().take(LOOKED_AT_MAX) {
            let look = self.looks.get(&one.id);
            let restarts = look.map_or_else(
                || self.offered(series, plan).all(|cached| cached.id < one.id),
                |(_, restarts)| *restarts,
            );
            if one.file_names == FileNames::Kept {
                match self.brought_back.get(&one.id) {
                    _ if stays_so || !restarts => continue,
                    Some(false) => continue,
                    Some(true) => {}
                    None => {
                        plan.say(one.id, Fate::BringBack { damaged });
                        return TurnOutcome::Open;
                    }
                }
            }
            let Some((look, _)) = look else {
                plan.say(one.id, self.first_look(one.id, restarts));
                return TurnOutcome::Open;
            };
            stays_so |= look.files == FilesFound::Gone;
            damaged |= look.files == FilesFound::Damaged;
            let cached = self.offered(series, plan).find(|cached| cached.id == one.id);
            match look.files {
                FilesFound::Gone if cached.is_none() => {}
                FilesFound::Damaged if cached.is_some_and(|cached| !cached.on_prefix) => {
                    return TurnOutcome::Good;
                }
                FilesFound::Damaged => plan.say(one.id, Fate::Hide(HiddenBecause::Damaged)),
                _ => return self.good(one.id, restarts, look, plan),
            }
        }
        TurnOutcome::None
    }

    fn first_look(&self, id: u64, restarts: bool) -> Fate {
        let fetches = restarts && self.wishes.fetchable.contains(&id) && !self.wishes.ends;
        if fetches { Fate::Fetch } else { Fate::Look(LookedFor::Candidate { restarts }) }
    }

    fn good(
        &self,
        id: u64,
        restarts: bool,
        look: &LookResult,
        plan: &mut StartPlan,
    ) -> TurnOutcome {
        plan.good.insert(id);
        if !restarts || look.files == FilesFound::Gone {
            return TurnOutcome::Good;
        }
        plan.restart = plan.restart.max(id);
        match (look.fetched, self.put_back.contains(&id)) {
            (true, _) => plan.say(id, Fate::Offer),
            (false, true) => plan.say(id, Fate::ReadInPlace),
            (false, false) => {
                plan.say(id, Fate::PutBack);
                return TurnOutcome::Open;
            }
        }
        TurnOutcome::Good
    }

    /// The program is to read a good checkpoint that stays on the prefix while the cache has only
    /// older ones of its series, and nothing older may be flushed over it.
    fn stay(&self, series: usize, plan: &mut StartPlan) {
        let Some(one) = self.staying(series, plan) else { return };
        let Some(look) = self.looks_to_stay.get(&one.id) else {
            plan.say(one.id, Fate::Look(LookedFor::ToStay));
            return;
        };
        let goes = |cached: &&Cached| {
            let same = cached.key.id == one.key.id || look.shares.contains(&cached.id);
            cached.id < one.id && same
        };
        let gone: Vec<u64> =
            self.offered(series, plan).filter(goes).map(|cached| cached.id).collect();
        gone.into_iter().for_each(|id| plan.say(id, Fate::Hide(HiddenBecause::OlderThan(one.id))));
    }

    /// The newest whole checkpoint of a series on the prefix that the program is to see, if the
    /// cache has only older ones of it.
    fn staying(&self, series: usize, plan: &StartPlan) -> Option<&IndexedDataset> {
        use HiddenBecause::{AfterCurrent, OtherCourse};
        let limit = self.wishes.chosen.or(self.index.returned_to).unwrap_or(u64::MAX);
        let is_passed_over = |id: u64| {
            let is_hidden = |verdict: &Fate| {
                matches!(verdict, Fate::Hide(AfterCurrent { .. } | OtherCourse { .. }))
            };
            plan.verdicts.iter().any(|(one, verdict)| *one == id && is_hidden(verdict))
        };
        let newest = self.index.listed.iter().find(|one| {
            let counts =
                one.file_names == FileNames::Own && one.checkpoint.is_some() && one.id <= limit;
            let counts = counts && one.series == Some(series) && !is_passed_over(one.id);
            counts && self.index.flushed.contains(&one.id)
        })?;
        let cached = self.offered(series, plan).map(|cached| cached.id).max()?;
        (cached < newest.id).then_some(newest)
    }

    /// Returns which one on the prefix is current from now on, if that changes.
    pub fn new_current(&self, plan: &StartPlan) -> Option<Current> {
        let limit = self.limit();
        // Only the user's word, or that of a damaged one, takes it back to an older one.
        let changes = self.index.current().is_none_or(|current| match limit.is_firm {
            true => current.id != plan.restart,
            false => current.id < plan.restart,
        });
        let mut offered = self.cached.iter().filter(|one| !plan.is_withdrawn(one.id));
        if plan.restart > 0 && offered.all(|one| one.on_prefix) && changes {
            return Some(Current::Is(plan.restart));
        }
        let turned = self.index.turn.is_some_and(|turn| turn.to == limit.id);
        if self.begin.unwrap_or(u64::MAX) <= limit.id || !turned {
            return None;
        }
        // From the cache: what comes next is not to follow the one that is current now.
        let older = self.index.listed.iter().find(|one| {
            one.id <= limit.id && one.checkpoint.is_some() && self.index.flushed.contains(&one.id)
        });
        Some(older.map_or(Current::OnlyCached(limit.id), |one| Current::Is(one.id)))
    }
}
