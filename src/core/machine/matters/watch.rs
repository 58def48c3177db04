//! Which files of a series stay on the PFS, and why, as learned from the program. Without ids one
//! such name keeps the whole series there: its older versions are gone, and no roll-back would be
//! consistent.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::state::{DatasetState, Routing, RunFacts, SharedDataset};
use crate::machine::terms::{
    DatasetKey, FileRef, Knowledge, MachineConfig, Reason, Report, SeriesReport, UnsafeName, Why,
    kind_hash, name_hash,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SharedNames {
    pub stay: BTreeMap<u64, Why>,
    /// The first name without id among them, for which the whole series stays there.
    pub marked: Option<UnsafeName>,
    /// (name, rank) of files written while learning, or new, since the last confirmation.
    pub written: BTreeSet<(u64, usize)>,
    /// (name, rank, has no id) of files read but not written by a rank while learning.
    pub read: BTreeSet<(u64, usize, bool)>,
}

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
            all.map(|(index, rule)| (rule, knowledge.get(index).unwrap_or(&none)))
        };
        let shared = all().map(|(rule, known)| SharedNames {
            stay: known.unsafe_names.clone(),
            marked: rule.prefix_only(known).map(|why| UnsafeName { name: 0, bare: true, why }),
            ..SharedNames::default()
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

    pub fn confirmed(&mut self, series: usize) {
        let shared = &mut self.shared[series];
        (shared.written, shared.read) = Default::default();
        self.series[series].written.clear();
    }

    pub fn has_written(&self, series: usize) -> bool {
        !self.shared[series].written.is_empty()
    }

    pub fn learn_kinds(&mut self, series: usize, kinds: impl Iterator<Item = u64>) {
        self.series[series].kinds.extend(kinds);
    }

    pub fn why(&self, series: usize, name: u64) -> Option<Why> {
        let news = &self.series[series].news.unsafe_names;
        let own = || news.iter().find(|mark| mark.name == name).map(|mark| mark.why);
        self.shared[series].stay.get(&name).copied().or_else(own)
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
        let known = self.shared[file.series].stay.contains_key(&name);
        let own = &mut self.series[file.series];
        if learning && !own.written.contains(&name) && !own.news.read.contains(&(name, bare)) {
            own.news.read.push((name, bare));
            facts.agreement.changed(1);
        } else if !learning && !known {
            self.mark_unsafe(facts, file, Why::Readers);
        }
    }

    pub fn mark_unsafe(&mut self, facts: &mut RunFacts, file: &FileRef, why: Why) {
        let marked = &mut self.series[file.series].news.unsafe_names;
        let name = name_hash(&file.masked);
        if !marked.iter().any(|mark| mark.name == name) {
            marked.push(UnsafeName { name, bare: file.masked == file.name, why });
        }
        facts.agreement.changed(1);
    }

    pub fn listen(&mut self, facts: &mut RunFacts, index: usize, reports: &[Report]) {
        for (rank, report) in reports.iter().enumerate() {
            let news = &report.series[index];
            for mark in &news.unsafe_names {
                self.note_unsafe(facts, index, mark);
            }
            let names = &mut self.shared[index];
            names.written.extend(news.written.iter().map(|name| (*name, rank)));
            names.read.extend(news.read.iter().map(|(name, bare)| (*name, rank, *bare)));
        }
        if facts.shared.series[index].routing != Routing::Prefix {
            for mark in find_unsafe(&self.shared[index], &facts.config.nodes) {
                self.note_unsafe(facts, index, &mark);
            }
        }
        self.find_marked(facts, index);
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
        facts.config.series[file.series].learn
            && !self.series[file.series].kinds.contains(&kind_hash(&file.masked))
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

    pub fn note_unsafe(&mut self, facts: &mut RunFacts, index: usize, mark: &UnsafeName) {
        let (names, series) = (&mut self.shared[index], &mut facts.shared.series[index]);
        series.learned |= !names.stay.contains_key(&mark.name);
        names.stay.entry(mark.name).or_insert(mark.why);
        if mark.bare && series.routing != Routing::Prefix {
            series.routing = Routing::Prefix;
            names.marked = Some(mark.clone());
            series.learned = true;
        }
    }
}

/// Finds names with several writers, or readers on other nodes than the writer's.
fn find_unsafe(shared: &SharedNames, nodes: &[usize]) -> Vec<UnsafeName> {
    let mut found: BTreeMap<u64, Why> = BTreeMap::new();
    let mut writers = shared.written.iter().peekable();
    while let Some((name, _)) = writers.next() {
        if writers.peek().is_some_and(|(next, _)| next == name) {
            found.insert(*name, Why::Writers);
        }
    }
    for (name, reader, _) in &shared.read {
        let mut writers = shared.written.range((*name, 0)..=(*name, usize::MAX));
        if writers.any(|(_, writer)| nodes[*writer] != nodes[*reader]) {
            found.entry(*name).or_insert(Why::Readers);
        }
    }
    let read = shared.read.iter();
    let bare: BTreeSet<u64> = read.filter(|(_, _, bare)| *bare).map(|(name, ..)| *name).collect();
    let marks =
        found.into_iter().map(|(name, why)| UnsafeName { name, bare: bare.contains(&name), why });
    marks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::{facts, file, reports};

    #[test]
    fn several_writers_or_readers_on_other_nodes_keep_a_name_on_the_prefix() {
        let name = name_hash("s");
        // (rank, it writes, it reads) on two nodes; the verdict.
        type Row<'a> = (&'a [(usize, bool, bool)], Option<Why>);
        let rows: [Row; 4] = [
            (&[(0, true, false)], None),
            (&[(0, true, true)], None),
            (&[(0, true, false), (1, true, false)], Some(Why::Writers)),
            (&[(0, true, false), (1, false, true)], Some(Why::Readers)),
        ];
        for (ranks, expected) in rows {
            let mut facts = facts(true);
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
        }
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
