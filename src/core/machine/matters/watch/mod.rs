//! Which files of a series stay on the PFS, and why, as learned from the program. Without ids one
//! such name keeps the whole series there: its older versions are gone, and no roll-back would be
//! consistent.

mod shared;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

pub use shared::SharedNames;
use shared::{find_unsafe, find_writers};

use super::verdicts::Judgement;
use crate::machine::state::{DatasetState, Routing, RunFacts, SharedDataset};
use crate::machine::terms::{
    DatasetKey, FileRef, Hints, Knowledge, MachineConfig, Reason, Report, SeriesReport, UnsafeName,
    Why, kind_hash, name_hash,
};

#[derive(Debug, Clone, Default)]
struct OwnNames {
    /// Written while learning, or new, since the last confirmation.
    written: BTreeSet<u64>,
    /// [`kind_hash`]es of names in confirmed datasets.
    kinds: BTreeSet<u64>,
    /// The file of this rank for which no file of the series is cached.
    marked: Option<String>,
    news: SeriesReport,
}

#[derive(Debug, Clone)]
pub struct NameWatch {
    shared: Vec<SharedNames>,
    series: Vec<OwnNames>,
}

impl NameWatch {
    pub fn new(config: &MachineConfig, knowledge: &[Knowledge]) -> Self {
        let none = Knowledge::default();
        let all = || {
            let all = config.series.iter().enumerate();
            all.map(|(index, _)| (index, knowledge.get(index).unwrap_or(&none)))
        };
        let shared = all().map(|(index, known)| {
            let mut stay = known.unsafe_names.clone();
            let (together, parted): (BTreeMap<_, _>, BTreeMap<_, _>) = known
                .together
                .clone()
                .into_iter()
                .partition(|(_, ranks)| config.are_on_one_node(ranks));
            parted.keys().for_each(|name| _ = stay.entry(*name).or_insert(Why::Writers));
            let why = config.prefix_only(index, known);
            let marked = why.map(|why| UnsafeName { name: 0, kind: 0, bare: true, why });
            let parts = stay.values().any(|why| matches!(why, Why::OfNodes(_)));
            let has_id = config.series[index].has_id;
            let waits = !has_id && (marked.is_some() || config.watches_parted(known));
            SharedNames { stay, parts, together, marked, waits, ..SharedNames::default() }
        });
        let series = all().map(|(_, known)| OwnNames {
            kinds: known.kinds.clone(),
            marked: known.marked.clone(),
            ..OwnNames::default()
        });
        NameWatch { shared: shared.collect(), series: series.collect() }
    }

    pub fn shared(&self) -> &[SharedNames] {
        &self.shared
    }

    pub fn store(&self, series: usize, knowledge: &mut Knowledge) {
        let (shared, own) = (&self.shared[series], &self.series[series]);
        knowledge.unsafe_names.clone_from(&shared.stay);
        knowledge.together.clone_from(&shared.together);
        knowledge.prefix_only = shared.marked.as_ref().map(|mark| mark.why);
        knowledge.marked.clone_from(&own.marked);
        knowledge.kinds.clone_from(&own.kinds);
    }

    pub fn report(&mut self, series: usize, report: &mut SeriesReport) {
        let own = &mut self.series[series];
        let SeriesReport { unsafe_names, read, rewrites, .. } = std::mem::take(&mut own.news);
        (report.unsafe_names, report.read, report.rewrites) = (unsafe_names, read, rewrites);
        report.written = own.written.iter().copied().collect();
    }

    pub fn note_written(&mut self, file: &FileRef) {
        self.series[file.series].written.insert(name_hash(&file.masked));
    }

    pub fn has_written(&self, series: usize) -> bool {
        !self.shared[series].written.is_empty()
    }

    /// Tells whether the name stays on the PFS, or is parted, and nothing is known of its kind.
    pub fn awaits_kind(&self, series: usize, name: u64, kind: u64) -> bool {
        let stay = &self.shared[series].stay;
        stay.contains_key(&name) && !stay.contains_key(&kind)
    }

    /// Notes `kinds` of files that this rank has sealed. What it writes together with others counts
    /// if it has deleted its own since, too: all of them go on in the same way.
    pub fn learn_kinds(&mut self, facts: &RunFacts, series: usize, kinds: Vec<u64>) {
        let together = self.shared[series].together.iter();
        let own = together.filter(|(_, ranks)| ranks.contains(&facts.config.rank));
        self.series[series].kinds.extend(own.map(|(name, _)| *name).chain(kinds));
    }

    pub fn why(&self, series: usize, name: u64) -> Option<Why> {
        self.why_of(series, name, name)
    }

    /// Does so for a file, of whose kind something may be known.
    pub fn why_stays(&self, file: &FileRef) -> Option<Why> {
        self.why_of(file.series, name_hash(&file.masked), kind_hash(&file.masked))
    }

    fn why_of(&self, series: usize, name: u64, kind: u64) -> Option<Why> {
        let news = &self.series[series].news.unsafe_names;
        let own = || news.iter().find(|mark| mark.name == name).map(|mark| mark.why);
        self.shared[series].known(name, kind).or_else(own)
    }

    /// Tells whether ranks of several nodes write files of that name into their caches.
    pub fn is_parted(&self, facts: &RunFacts, file: &FileRef) -> bool {
        if !self.knows_parted(facts) || facts.shared.fallen_back || !facts.may_be_parted(file) {
            return false;
        }
        let names = &self.shared[file.series];
        let (name, kind) = (name_hash(&file.masked), kind_hash(&file.masked));
        let key = facts.target(file);
        let before = names.were_parted(name, &key).or_else(|| names.were_parted(kind, &key));
        // Without an id only who has it in that checkpoint goes on in it: for the others, too, the
        // next one begins.
        let goes_on = file.id.is_some() || facts.file(&key, &file.name).is_some();
        let before = before.filter(|parted| !parted || goes_on);
        before.unwrap_or_else(|| names.are_parted(name, kind))
    }

    /// Tells whether files of that name are watched on the PFS once more; with MPI-IO told what it
    /// will be told when they are cached, if that is known: it may write in another way then.
    pub fn is_tried(&self, facts: &RunFacts, file: &FileRef) -> bool {
        matches!(self.why_stays(file), Some(Why::Tries(_))) && facts.may_be_parted(file)
    }

    /// Returns what MPI-IO is to be told of such a file, the same on all ranks: ROMIO's come to
    /// different collectives otherwise. So this does not ask which checkpoint the file is of, which
    /// ranks that have written it and others see differently where names have no id.
    pub fn hints(&self, facts: &RunFacts, file: &FileRef) -> Option<Hints> {
        let may_be = facts.may_be_parted(file) && !facts.shared.fallen_back;
        self.shared[file.series].hints(file).filter(|_| may_be)
    }

    /// Tells whether there are such names, or were.
    pub fn knows_parted(&self, facts: &RunFacts) -> bool {
        facts.config.caches_parts && self.shared.iter().any(|names| names.parts)
    }

    /// Tells whether several ranks of one node write the file: of the copies that each would have
    /// of it one would replace the others.
    pub fn has_co_writers(&self, facts: &RunFacts, file: &FileRef) -> bool {
        self.co_writers(file).is_some_and(|ranks| facts.config.are_on_one_node(ranks))
    }

    pub fn co_writers(&self, file: &FileRef) -> Option<&BTreeSet<usize>> {
        self.shared[file.series].co_writers(name_hash(&file.masked))
    }

    /// Tells whether a lower rank of the node writes the name together with `rank`, in the cache.
    pub fn lower_answers(&self, rank: usize, series: usize, name: u64) -> bool {
        let together = self.shared[series].together.get(&name);
        let lower = together.and_then(BTreeSet::first).is_some_and(|lowest| *lowest < rank);
        lower && self.why(series, name).is_none()
    }

    pub fn read_elsewhere(&mut self, facts: &mut RunFacts, file: &FileRef) {
        let shared = &facts.shared.series[file.series];
        let begun = |dataset: &&SharedDataset| !dataset.restored;
        if !shared.datasets.iter().any(|dataset| begun(&dataset)) {
            return; // a restart reads what earlier launches wrote
        }
        let name = name_hash(&file.masked);
        let bare = file.masked == file.name;
        let learning = shared.routing.watches();
        let stays = self.shared[file.series].known(name, kind_hash(&file.masked));
        let known = stays.is_some_and(|why| !why.is_of_nodes());
        let own = &mut self.series[file.series];
        if learning && !own.written.contains(&name) && !own.news.read.contains(&(name, bare)) {
            own.news.read.push((name, bare));
            facts.agreement.changed(1);
        } else if !learning && !known {
            self.mark_unsafe(facts, file, Why::Readers);
        }
    }

    pub fn mark_unsafe(&mut self, facts: &mut RunFacts, file: &FileRef, why: Why) {
        self.mark(facts, file, why, file.masked == file.name);
    }

    /// Notes that ranks of several nodes open the file together. If each could have its part, that
    /// is to be seen first.
    pub fn mark_opened_together(&mut self, facts: &mut RunFacts, file: &FileRef) {
        let may_be = facts.may_be_parted(file);
        let learns = may_be && facts.config.series[file.series].learn;
        let why = if learns { Why::Tries(Hints::None) } else { Why::Writers };
        self.mark(facts, file, why, file.masked == file.name && !may_be);
    }

    fn mark(&mut self, facts: &mut RunFacts, file: &FileRef, why: Why, bare: bool) {
        let marked = &mut self.series[file.series].news.unsafe_names;
        let name = name_hash(&file.masked);
        if !marked.iter().any(|mark| mark.name == name) {
            marked.push(UnsafeName { name, kind: kind_hash(&file.masked), bare, why });
        }
        facts.agreement.changed(1);
    }

    pub fn listen(&mut self, facts: &mut RunFacts, index: usize, reports: &[Report]) {
        for (rank, report) in reports.iter().enumerate() {
            let news = &report.series[index];
            for mark in &news.unsafe_names {
                self.shared[index].note_or_watch(facts, index, mark);
            }
            let names = &mut self.shared[index];
            names.written.extend(news.written.iter().map(|name| (*name, rank)));
            names.read.extend(news.read.iter().map(|(name, bare)| (*name, rank, *bare)));
        }
        let writers = find_writers(&self.shared[index].written);
        if facts.shared.series[index].routing != Routing::Prefix {
            let has_id = facts.config.series[index].has_id;
            for mut mark in find_unsafe(&self.shared[index], &writers, &facts.config) {
                // What may be cached in parts is to be seen first.
                let awaits = mark.why == Why::Writers && facts.config.caches_parts;
                mark.bare |= !has_id && !awaits;
                self.shared[index].note_or_watch(facts, index, &mark);
            }
        }
        let together = &mut self.shared[index].together;
        for (name, ranks) in writers.into_iter().filter(|(_, ranks)| ranks.len() > 1) {
            together.entry(name).or_default().extend(ranks);
        }
        self.find_marked(facts, index);
    }

    /// Notes what is known of a name that ranks of several nodes write.
    pub fn judged(
        &mut self,
        facts: &mut RunFacts,
        index: usize,
        Judgement { name, kind, why, tried }: Judgement,
    ) {
        let (names, series) = (&mut self.shared[index], &mut facts.shared.series[index]);
        let known = match names.stay.get(&kind).filter(|why| why.is_of_nodes()) {
            Some(known) => *known,
            None => *names.stay.entry(name).or_insert(Why::Writers),
        };
        let why = match (known, why) {
            (Why::OfNodes(_), Why::OfNodes(_)) => {
                if matches!(names.stay.get(&name), Some(Why::Writers | Why::Tries(_))) {
                    names.learn(name, known, series); // as others of its kind
                }
                return;
            }
            // Told to gather nothing it wrote small pieces, which were not seen before.
            (Why::Tries(Hints::Apart), Why::OfNodes(Hints::Gathered)) if tried => {
                Why::Tries(Hints::Gathered)
            }
            (Why::Tries(hints), Why::Tries(Hints::None)) => Why::Tries(hints), // as before
            (Why::Tries(hints), Why::OfNodes(_)) if tried => Why::OfNodes(hints),
            (_, Why::OfNodes(hints)) if hints != Hints::None => Why::Tries(hints),
            _ => why,
        };
        let is_told = known == why && names.stay.contains_key(&kind);
        if matches!(known, Why::GoesOn | Why::Stays) || is_told {
            return;
        }
        names.learn(name, why, series);
        names.learn(kind, why, series);
        if let Some(mark) = names.marked.as_mut().filter(|mark| mark.name == name) {
            mark.why = why;
        }
        if !facts.config.series[index].has_id && !why.is_of_nodes() {
            self.note_unsafe(facts, index, &UnsafeName { name, kind, bare: true, why });
        }
    }

    /// Finds the name of the file for which the series stays on the PFS, if this rank has it.
    pub fn find_marked(&mut self, facts: &RunFacts, index: usize) {
        let (shared, own) = (&self.shared[index], &mut self.series[index]);
        let Some(mark) = shared.marked.as_ref().filter(|_| own.marked.is_none()) else { return };
        let files = facts.series[index].datasets.iter().flat_map(|dataset| &dataset.files);
        let mut named = files.filter(|(_, file)| file.named.masked == mark.name);
        own.marked = named.next().map(|(name, _)| name.clone());
    }

    pub fn unprotected(&self, series: usize) -> Option<(Why, &str)> {
        let name = self.series[series].marked.as_deref()?;
        Some((self.shared[series].marked.as_ref()?.why, name))
    }

    /// Notes that a full set of files does not mean a complete checkpoint: one of its files is, or
    /// could have been, written again after a sync point.
    pub fn note_rewrite(&mut self, facts: &RunFacts, file: &FileRef, target: &DatasetKey) {
        if file.id.is_none() {
            return;
        }
        let dataset = facts.series[file.series].find(target);
        let held = dataset.and_then(|dataset| dataset.files.get(&file.name));
        let written = held.is_some_and(|file| file.open == 0 && file.bytes > 0);
        let same = facts.written_before(target, file) || (written && facts.is_aside());
        let newest = facts.shared.series[file.series].datasets.last();
        let last = facts.series[file.series].datasets.last();
        let continued = newest.is_some_and(|newest| {
            !newest.restored
                && newest.state == DatasetState::Confirmed
                && newest.key.same_group(target)
                && last.is_some_and(|last| last.key == newest.key && last.holds(&file.name))
        });
        if same || continued {
            self.series[file.series].news.rewrites = true;
        }
    }

    pub fn is_new(&self, facts: &RunFacts, file: &FileRef) -> bool {
        let kinds = &self.series[file.series].kinds;
        let hashes = [kind_hash(&file.masked), name_hash(&file.masked)];
        facts.config.series[file.series].learn && !hashes.iter().any(|hash| kinds.contains(hash))
    }

    /// Tells of the file for which its whole series stays there what the others do not have.
    pub fn why_series_stays(&self, file: &FileRef) -> Reason {
        let (shared, local) = (&self.shared[file.series], &self.series[file.series]);
        let is_marked = local.marked.as_deref() == Some(file.name.as_str());
        let mark = shared.marked.as_ref().filter(|_| is_marked);
        mark.map_or(Reason::SeriesStays, |mark| Reason::Learned(mark.why))
    }

    /// Learns who writes the new name that the program gives a file: who writes the old one. Others
    /// may write it, too.
    pub fn learn_new_name(&mut self, to: &FileRef) {
        let own = &mut self.series[to.series];
        if own.kinds.insert(kind_hash(&to.masked)) {
            own.written.insert(name_hash(&to.masked));
        }
    }

    /// Takes back that several nodes may write the name into their caches.
    pub fn part_no_more(&mut self, facts: &mut RunFacts, index: usize, name_and_kind: [u64; 2]) {
        let names = &mut self.shared[index];
        for name in name_and_kind {
            if names.stay.get(&name).is_some_and(|why| why.is_of_nodes()) {
                names.learn(name, Why::Writers, &mut facts.shared.series[index]);
            }
        }
    }

    pub fn note_unsafe(&mut self, facts: &mut RunFacts, index: usize, mark: &UnsafeName) {
        self.shared[index].note_unsafe(facts, index, mark);
    }

    /// Does what [`SharedNames::route`] does.
    pub fn route(&mut self, facts: &mut RunFacts, index: usize, routing: Routing) {
        self.shared[index].route(facts, index, routing);
    }

    /// Does what [`SharedNames::is_undecided`] does.
    pub fn is_undecided(&self, facts: &RunFacts, index: usize) -> bool {
        self.shared[index].is_undecided(facts, index)
    }

    /// Notes that a checkpoint is complete.
    pub fn confirmed(&mut self, facts: &mut RunFacts, index: usize) {
        self.shared[index].confirmed(facts, index);
        self.series[index].written.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::{facts, file, reports, share, write};

    #[test]
    fn writers_or_readers_on_other_nodes_keep_a_name_on_the_prefix() {
        let name = name_hash("s");
        // (rank, it writes, it reads), the nodes of two ranks; the verdict.
        type Row<'a> = (&'a [(usize, bool, bool)], [usize; 2], Option<Why>);
        let rows: [Row; 5] = [
            (&[(0, true, false)], [0, 1], None),
            (&[(0, true, true)], [0, 1], None),
            (&[(0, true, false), (1, true, false)], [0, 1], Some(Why::Writers)),
            (&[(0, true, false), (1, true, false)], [0, 0], None),
            (&[(0, true, false), (1, false, true)], [0, 1], Some(Why::Readers)),
        ];
        for (ranks, nodes, expected) in rows {
            let mut facts = facts(true);
            facts.config.nodes = nodes.to_vec();
            facts.shared.series[0].routing = Routing::Learning;
            let mut watch = NameWatch::new(&facts.config, &[]);
            let mut all = reports(SeriesReport::default());
            for (rank, writes, reads) in ranks {
                let news = &mut all[*rank].series[0];
                news.written.extend(writes.then_some(name));
                news.read.extend(reads.then_some((name, false)));
            }
            watch.listen(&mut facts, 0, &all);
            assert_eq!(watch.why(0, name), expected, "{ranks:?}");
            assert!(facts.shared.series[0].routing == Routing::Learning, "it has an id");
            let mut known = Knowledge::default();
            watch.store(0, &mut known);
            facts.config.nodes = vec![0, 1];
            let next = NameWatch::new(&facts.config, &[known]);
            let writers = ranks.iter().filter(|(_, writes, _)| *writes).count();
            let parted = (writers > 1).then_some(Why::Writers);
            assert_eq!(next.why(0, name), expected.or(parted), "the next launch: {ranks:?}");
        }
    }

    #[test]
    fn what_mpi_io_does_when_it_is_told_is_seen_before_a_file_is_cached() {
        let (name, apart) = (name_hash("s"), Hints::Apart);
        let (of_nodes, tries) = (Why::OfNodes(apart), Why::Tries(apart));
        let (gathered, again) = (Why::OfNodes(Hints::Gathered), Why::Tries(Hints::None));
        // What is seen, and whether MPI-IO was told; what is known then.
        let rows = [
            (vec![(Why::OfNodes(Hints::None), false)], Why::OfNodes(Hints::None)),
            (vec![(of_nodes, false)], tries),
            (vec![(of_nodes, false), (of_nodes, false)], tries),
            (vec![(of_nodes, false), (Why::OfNodes(Hints::None), true)], of_nodes),
            (vec![(of_nodes, false), (of_nodes, true), (of_nodes, false)], of_nodes),
            (vec![(of_nodes, false), (Why::Writers, true)], Why::Writers),
            (vec![(again, false), (of_nodes, false)], tries),
            (vec![(again, false), (Why::OfNodes(Hints::None), false)], Why::OfNodes(Hints::None)),
            (vec![(of_nodes, false), (again, true)], tries),
            (vec![(of_nodes, false), (gathered, true)], Why::Tries(Hints::Gathered)),
            (vec![(of_nodes, false), (gathered, true), (of_nodes, true)], gathered),
        ];
        for (seen, known) in rows {
            let mut facts = facts(true);
            facts.config.caches_parts = true;
            let mut watch = NameWatch::new(&facts.config, &[]);
            let judged =
                |(why, tried): &(Why, bool)| Judgement { name, kind: 9, why: *why, tried: *tried };
            seen.iter().map(judged).for_each(|one| watch.judged(&mut facts, 0, one));
            assert_eq!(watch.why(0, name), Some(known), "{seen:?}");
            let file = file("1", "s");
            assert_eq!(watch.is_parted(&facts, &file), matches!(known, Why::OfNodes(_)));
            assert_eq!(watch.is_tried(&facts, &file), matches!(known, Why::Tries(_)));
        }
    }

    #[test]
    fn what_is_learned_of_several_nodes_holds_from_the_next_checkpoint_on() {
        let mut facts = facts(true);
        facts.config.caches_parts = true;
        let mut watch = NameWatch::new(&facts.config, &[]);
        let parted = |watch: &NameWatch, facts: &RunFacts| -> Vec<bool> {
            ["1", "2", "3"].map(|id| watch.is_parted(facts, &file(id, "s"))).to_vec()
        };
        let begin = |facts: &mut RunFacts, id| {
            let key = DatasetKey::new(0, id, 0);
            write(facts, &key, &file(id, "s"), 1);
            share(facts, &key, DatasetState::Open);
        };
        begin(&mut facts, "1");
        let judged = Judgement {
            name: name_hash("s"),
            kind: 9,
            why: Why::OfNodes(Hints::None),
            tried: false,
        };
        watch.judged(&mut facts, 0, judged);
        assert_eq!(parted(&watch, &facts), [false, true, true]);
        begin(&mut facts, "2");
        let mark = UnsafeName {
            name: name_hash("s"),
            kind: name_hash("s"),
            bare: false,
            why: Why::Readers,
        };
        watch.note_unsafe(&mut facts, 0, &mark);
        assert_eq!(parted(&watch, &facts), [false, true, false]);
    }

    #[test]
    fn a_name_without_id_keeps_its_whole_series_there() {
        let mut facts = facts(false);
        let mut watch = NameWatch::new(&facts.config, &[]);
        watch.mark_unsafe(&mut facts, &file("", "s"), Why::Stays);
        let mut news = SeriesReport::default();
        watch.report(0, &mut news);
        watch.listen(&mut facts, 0, &reports(news));
        assert_eq!(facts.shared.series[0].routing, Routing::Prefix);
        assert_eq!(watch.unprotected(0), None, "this rank has no such file");
        let mut known = Knowledge::default();
        watch.store(0, &mut known);
        assert_eq!(known.prefix_only, Some(Why::Stays), "the next launch knows");
    }
}
