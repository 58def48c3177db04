//! What the ranks have done to files that several nodes write, gathered until it tells whether such
//! a file could be cached.
//!
//! A rank keeps what it has done to each file that is watched. Once all know that ranks of several
//! nodes write a name, those say it in the next conference, and all judge alike.

mod course;
mod judge;

use std::collections::{BTreeMap, BTreeSet};

use scr_abi::accesses::{Deed, trait_bit};

pub use course::{Act, Course, by_stamp};
pub use judge::{OfNode, judge};

use crate::machine::state::{DatasetState, RunFacts, SharedDataset};
use crate::machine::terms::{
    Accesses, DatasetKey, FileRef, Hints, PartedNews, Report, SeriesReport, Why, kind_hash,
    name_hash,
};

/// What all ranks say of one file in one conference, bytes.
const BYTES_MAX: usize = 16 << 20;
/// What a rank may say in any case.
const BYTES_MIN: usize = 1 << 10;

/// A name that ranks of several nodes write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct PartedName {
    writers: BTreeSet<usize>,
    /// Ranks that have not written it have read it.
    is_read: bool,
    /// What each has said of it.
    said: BTreeMap<usize, Accesses>,
}

/// What is known of a name that ranks of several nodes write.
#[derive(Debug, Clone, Copy)]
pub struct Judgement {
    pub name: u64,
    /// The same without its numbers: it has others in the next checkpoint, maybe.
    pub kind: u64,
    pub why: Why,
    /// MPI-IO was told then what it is told of a cached file.
    pub tried: bool,
}

/// The matter of files that several nodes write.
#[derive(Debug, Clone, Default)]
pub struct Verdicts {
    /// By series and name; equal on all ranks.
    parted: Vec<BTreeMap<u64, PartedName>>,
    /// By series and name: what this rank has done, and not said.
    own: Vec<BTreeMap<u64, OwnDone>>,
}

/// What this rank has done to a file of a dataset.
#[derive(Debug, Clone)]
struct OwnDone {
    dataset: DatasetKey,
    done: Accesses,
}

impl Verdicts {
    /// Begins with nothing.
    pub fn new(series: usize) -> Self {
        Verdicts { parted: vec![BTreeMap::new(); series], own: vec![BTreeMap::new(); series] }
    }

    /// Tells whether a verdict of that name is still to come.
    pub fn is_awaited(&self, series: usize, name: u64) -> bool {
        let awaited = |one: &PartedName| one.said.len() < one.writers.len();
        self.parted[series].get(&name).is_some_and(awaited)
    }

    /// Tells whether any is.
    pub fn are_awaited(&self) -> bool {
        let of =
            |series: usize| self.parted[series].keys().any(|name| self.is_awaited(series, *name));
        (0..self.parted.len()).any(of)
    }

    /// Does what `Machine::watched` does.
    pub fn watched(
        &mut self,
        facts: &mut RunFacts,
        key: &DatasetKey,
        file: &FileRef,
        done: Accesses,
    ) {
        let changes = done.all.iter().any(|one| matches!(one.deed, Deed::Write | Deed::Cut));
        let goes_on = if changes { goes_on(facts, key, file) } else { 0 };
        let traits = done.traits | goes_on;
        // Without ids the file of another checkpoint has the same name.
        let of = name_hash(&format!("{}/{}", key.generation, file.name));
        let name = name_hash(&file.masked);
        let kind = kind_hash(&file.masked);
        let done = Accesses { name, kind, file: of, traits, ..done };
        let own = self.own[file.series].entry(name);
        let own = own.or_insert_with(|| OwnDone {
            dataset: key.clone(),
            done: Accesses { name, kind, file: of, ..Accesses::default() },
        });
        take(&mut own.done, &done);
        if own.done.file == of {
            own.dataset = key.clone();
        }
        if self.parted[file.series].contains_key(&name) {
            facts.agreement.changed(1);
        }
    }

    /// Fills in what this rank has done to names that several nodes write.
    pub fn report(&mut self, facts: &RunFacts, series: usize, report: &mut SeriesReport) {
        let room = (BYTES_MAX / facts.config.nodes.len().max(1)).max(BYTES_MIN);
        let parted = &self.parted[series];
        let own = std::mem::take(&mut self.own[series]).into_iter();
        let (said, kept) =
            own.partition::<BTreeMap<_, _>, _>(|(name, _)| parted.contains_key(name));
        self.own[series] = kept;
        report.watched = said.into_values().map(|own| fits(own.done, room)).collect();
    }

    /// Takes in what the ranks say, and which names ranks of several nodes write. Returns what is
    /// known now.
    pub fn listen(
        &mut self,
        facts: &mut RunFacts,
        series: usize,
        reports: &[Report],
        news: &[PartedNews],
    ) -> Vec<Judgement> {
        if !facts.config.tells_of_parted {
            return Vec::new();
        }
        let parted = &mut self.parted[series];
        for PartedNews { name, writers, is_read } in news {
            let one = parted.entry(*name).or_default();
            one.writers.extend(writers);
            one.is_read |= is_read;
        }
        let mut heard = BTreeSet::new();
        for (rank, report) in reports.iter().enumerate() {
            for done in &report.series[series].watched {
                let Some(one) = parted.get_mut(&done.name) else { continue };
                heard.insert(done.name);
                let said = one.said.entry(rank).or_insert_with(|| done.clone());
                take(said, done);
            }
        }
        if self.own[series].keys().any(|name| parted.contains_key(name)) {
            facts.agreement.changed(1);
        }
        let nodes = &facts.config.nodes;
        let verdict = |name: u64| {
            let one = &parted[&name];
            let kind = one.said.values().next()?.kind;
            Some(Judgement { name, kind, why: one.judge(nodes)?, tried: one.is_tried() })
        };
        heard.into_iter().filter_map(verdict).collect()
    }

    /// Notes that the next file of that name is to be judged, too: who writes it is known.
    pub fn judge_again(&mut self, series: usize, name: u64) {
        if let Some(one) = self.parted[series].get_mut(&name) {
            one.said.clear();
        }
    }

    /// Notes that the dataset is complete: what is said of its files has been. A newer one may have
    /// begun.
    pub fn confirmed(&mut self, facts: &RunFacts, key: &DatasetKey) {
        let parted = &mut self.parted[key.series];
        parted.retain(|_, one| one.said.len() < one.writers.len());
        let newer: Vec<&DatasetKey> =
            facts.series[key.series].newer(key).map(|dataset| &dataset.key).collect();
        self.own[key.series]
            .retain(|name, own| parted.contains_key(name) || newer.contains(&&own.dataset));
    }

    /// Returns what is equal on all ranks.
    pub fn shared(&self) -> impl std::hash::Hash + '_ {
        &self.parted
    }
}

impl PartedName {
    fn is_tried(&self) -> bool {
        self.said.values().all(|said| said.traits & trait_bit::TRIED != 0)
    }

    /// `None`: a writer has said nothing yet, or they have spoken of different files.
    fn judge(&self, nodes: &[usize]) -> Option<Why> {
        let all = self.writers.iter().map(|rank| {
            let done = self.said.get(rank)?;
            Some(OfNode { node: nodes[*rank], done })
        });
        let all: Vec<OfNode> = all.collect::<Option<_>>()?;
        let same = all.iter().all(|one| one.done.file == all[0].done.file);
        same.then(|| match self.is_read {
            true => Why::Readers,
            false if all.iter().any(|one| is_early(one.done)) => Why::Tries(Hints::None),
            false => judge(&all),
        })
    }
}

/// Tells by traits whether a file that was changed now was part of a checkpoint that was complete.
/// If that was only likely, since it had been left alone for the settle time, and that time can
/// still grow, nothing is known: so far it was too short.
fn goes_on(facts: &RunFacts, key: &DatasetKey, file: &FileRef) -> u64 {
    let shared = facts.shared.find(key).filter(|dataset| dataset.seals.count > 0);
    // Without ids another file may come to a checkpoint that is sealed.
    let shared = shared.filter(|_| facts.config.series[key.series].has_id || facts.went_on(file));
    let is_likely = |one: &SharedDataset| one.state != DatasetState::Confirmed;
    let series = &facts.shared.series[key.series];
    let grows = series.settle_ms < series.settle_most_ms(&facts.config);
    match shared {
        _ if facts.has_successor(key) => trait_bit::GOES_ON,
        Some(one) if is_likely(one) && grows => trait_bit::EARLY,
        Some(_) => trait_bit::GOES_ON,
        None => 0,
    }
}

fn is_early(done: &Accesses) -> bool {
    done.traits & trait_bit::EARLY != 0
}

/// Takes in more of what a rank has done to one file; or what it has done to the one of which
/// MPI-IO was told what to do, or that can be judged, instead of that of another.
fn take(known: &mut Accesses, done: &Accesses) {
    let tried = |one: &Accesses| one.traits & trait_bit::TRIED != 0;
    if known.file == done.file {
        known.add(done);
    } else if (tried(done) && !tried(known)) || (is_early(known) && !is_early(done)) {
        known.clone_from(done);
    }
}

/// What takes too many bytes is said to be too much.
fn fits(done: Accesses, room: usize) -> Accesses {
    if done.to_bytes().len() <= room {
        return done;
    }
    Accesses { traits: done.traits | trait_bit::OVERFULL, all: Vec::new(), ..done }
}

#[cfg(test)]
mod tests {
    use scr_abi::accesses::{Access, Moment, Within};

    use super::*;
    use crate::machine::state::testing::{facts, file, reports, share, write};

    /// What two ranks, of two nodes, are told when both have written the file of checkpoint `id`.
    fn judged(verdicts: &mut Verdicts, facts: &mut RunFacts, id: &str) -> Vec<Why> {
        let name = name_hash("s");
        let news = PartedNews { name, writers: [0, 1].into(), is_read: false };
        verdicts.listen(facts, 0, &reports(SeriesReport::default()), &[news]);
        let (key, file) = (DatasetKey::new(0, id, 0), file(id, "s"));
        let mut all = reports(SeriesReport::default());
        for (report, start) in all.iter_mut().zip([0, 1 << 20]) {
            let (deed, within) = (Deed::Write, Within::Nothing);
            let (end, stamp) = (start + (1 << 20), Moment::at(1));
            let piece = Access { deed, within, start, end, stamp };
            let done =
                Accesses { traits: trait_bit::MADE, all: vec![piece], ..Accesses::default() };
            verdicts.watched(facts, &key, &file, done);
            verdicts.report(facts, 0, &mut report.series[0]);
        }
        verdicts.listen(facts, 0, &all, &[]).into_iter().map(|one| one.why).collect()
    }

    #[test]
    fn what_was_done_to_the_next_checkpoint_is_kept_when_one_is_complete() {
        let (mut facts, mut verdicts) = (facts(true), Verdicts::new(1));
        let [one, next] = ["1", "2"].map(|id| DatasetKey::new(0, id, 0));
        for (key, id) in [(&one, "1"), (&next, "2")] {
            write(&mut facts, key, &file(id, "s"), 1);
        }
        let done = || Accesses { traits: trait_bit::MADE, ..Accesses::default() };
        for (key, id, left) in [(&one, "1", 0), (&next, "2", 1)] {
            verdicts.watched(&mut facts, key, &file(id, "s"), done());
            verdicts.confirmed(&facts, &one);
            assert_eq!(verdicts.own[0].len(), left, "{key:?}");
        }
        verdicts.confirmed(&facts, &next);
        assert!(verdicts.own[0].is_empty());
    }

    #[test]
    fn a_checkpoint_that_seemed_complete_too_early_tells_nothing_of_its_files() {
        use DatasetState::{Confirmed, Open, Provisional};
        // Whether the checkpoint was sealed when its file was changed, and for how long files had
        // to be left alone for that, milliseconds; the verdict.
        let rows = [
            (Open, 50, Why::OfNodes(Hints::None)),
            (Provisional, 50, Why::Tries(Hints::None)),
            (Provisional, 5_000, Why::GoesOn), // the most
            (Confirmed, 50, Why::GoesOn),
        ];
        for (state, settle_ms, expected) in rows {
            let (mut facts, mut verdicts) = (facts(true), Verdicts::new(1));
            facts.config.tells_of_parted = true;
            facts.config.nodes = vec![0, 1];
            let key = DatasetKey::new(0, "1", 0);
            write(&mut facts, &key, &file("1", "s"), 1);
            share(&mut facts, &key, state);
            facts.shared.series[0].settle_ms = settle_ms;
            let first = judged(&mut verdicts, &mut facts, "1");
            assert_eq!(first, [expected], "{state:?} {settle_ms}");
            if matches!(expected, Why::Tries(_)) {
                verdicts.judge_again(0, name_hash("s"));
                let next = judged(&mut verdicts, &mut facts, "2");
                assert_eq!(next, [Why::OfNodes(Hints::None)], "the next one tells");
            }
        }
    }
}
