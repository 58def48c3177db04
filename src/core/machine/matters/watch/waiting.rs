//! Series without ids of which files are written by several nodes: they wait until it is known
//! whether each of these can be cached, since one that stays on the PFS keeps all there.

use super::shared::SharedNames;
use crate::machine::state::{Routing, RunFacts};
use crate::machine::terms::{Hints, UnsafeName, Why};

/// So many checkpoints without ids are watched.
const UNDECIDED_MAX: u32 = 6;

impl SharedNames {
    /// Changes where files of the series go.
    pub fn route(&mut self, facts: &mut RunFacts, index: usize, routing: Routing) {
        let has_id = facts.config.series[index].has_id;
        let series = &mut facts.shared.series[index];
        let waits = !has_id && !routing.caches();
        self.wait(waits, series);
        series.learned |= series.routing != routing;
        series.routing = routing;
    }

    /// Tells whether a series without ids is to be watched on, although a checkpoint is complete:
    /// there is a name that several nodes write, and whether it can be cached is not known yet.
    pub fn is_undecided(&self, facts: &RunFacts, index: usize) -> bool {
        self.undecided(facts, index).is_some()
    }

    /// Tells whether a name is watched once more, in one of the first checkpoints that a launch has
    /// begun. A file that gets its name with a directory goes to the PFS then, too: what lies there
    /// of the directory keeps the rest of it from moving in the caches.
    pub fn tries_any(&self, begun: u64) -> bool {
        let is_tried = |why: &Why| matches!(why, Why::Tries(_));
        begun <= u64::from(UNDECIDED_MAX) && self.stay.values().any(is_tried)
    }

    fn undecided(&self, facts: &RunFacts, index: usize) -> Option<UnsafeName> {
        let applies = facts.config.caches_parts && !facts.config.series[index].has_id;
        let open = |why: &Why| matches!(why, Why::Writers | Why::Tries(_));
        let mut stay = self.stay.iter().filter(|(_, why)| applies && open(why));
        stay.next().map(|(name, why)| UnsafeName {
            name: *name,
            kind: *name,
            bare: true,
            why: *why,
        })
    }

    /// Notes that a checkpoint is complete: what is known by now decides where the next ones go. A
    /// file that is not written again would keep the series there for ever.
    pub fn confirmed(&mut self, facts: &mut RunFacts, series: usize) {
        let open = self.undecided(facts, series);
        self.waited += 1;
        match open {
            Some(mark) if self.waited > UNDECIDED_MAX => {
                self.note_unsafe(facts, series, &mark);
            }
            None if facts.shared.series[series].routing.watches() => {
                self.route(facts, series, Routing::Cache);
            }
            _ => {}
        }
        (self.written, self.read) = Default::default();
    }

    /// Notes a name. Without ids one that may be cached in parts is watched, and all of its series.
    pub(super) fn note_or_watch(&mut self, facts: &mut RunFacts, index: usize, mark: &UnsafeName) {
        self.note_unsafe(facts, index, mark);
        let parted = self.known(mark.name, mark.kind);
        let watched = !mark.bare && !matches!(parted, Some(Why::OfNodes(_)));
        let stays = facts.shared.series[index].routing == Routing::Prefix;
        if watched && !stays && !facts.config.series[index].has_id {
            self.route(facts, index, Routing::Learning);
        }
    }

    /// Notes a name that stays on the PFS.
    pub fn note_unsafe(&mut self, facts: &mut RunFacts, index: usize, mark: &UnsafeName) {
        let (names, series) = (&mut *self, &mut facts.shared.series[index]);
        let known = names.known(mark.name, mark.kind);
        // That several nodes write it is what it is cached for.
        let is_news = match known {
            Some(why) if why == Why::Writers || why.is_of_nodes() => {
                !matches!(mark.why, Why::Writers | Why::Tries(Hints::None))
            }
            Some(_) => false,
            None => true,
        };
        if is_news {
            names.learn(mark.name, mark.why, series);
            if names.stay.contains_key(&mark.kind) {
                names.learn(mark.kind, mark.why, series);
            }
        }
        if mark.bare && series.routing != Routing::Prefix {
            names.marked = Some(mark.clone());
            self.route(facts, index, Routing::Prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::matters::verdicts::Judgement;
    use crate::machine::matters::watch::NameWatch;
    use crate::machine::state::DatasetState;
    use crate::machine::state::testing::{facts, file, share, write};
    use crate::machine::terms::{DatasetKey, name_hash};

    #[test]
    fn a_series_without_ids_waits_until_each_of_its_files_is_judged() {
        let mut facts = facts(false);
        facts.config.caches_parts = true;
        facts.shared.series[0].routing = Routing::Learning;
        let routing = |facts: &RunFacts| facts.shared.series[0].routing;
        let mut names = SharedNames { waits: true, ..SharedNames::default() };
        let mark = |name| UnsafeName { name, kind: name, bare: false, why: Why::Writers };
        names.note_or_watch(&mut facts, 0, &mark(1));
        names.confirmed(&mut facts, 0);
        assert_eq!(routing(&facts), Routing::Learning);
        let known = Why::OfNodes(Hints::None);
        names.stay.insert(3, known);
        for why in [Why::Writers, Why::Tries(Hints::None)] {
            names.note_unsafe(&mut facts, 0, &UnsafeName { why, ..mark(3) });
            assert_eq!(names.stay.remove(&3), Some(known), "no news");
            names.stay.insert(3, known);
        }
        names.learn(1, Why::OfNodes(Hints::None), &mut facts.shared.series[0]);
        assert!(!names.are_parted(1, 1), "not in this checkpoint");
        names.confirmed(&mut facts, 0);
        assert!(routing(&facts) == Routing::Cache && names.are_parted(1, 1));
        names.note_or_watch(&mut facts, 0, &mark(2));
        assert!(routing(&facts) == Routing::Learning && !names.are_parted(1, 1));
        (0..=UNDECIDED_MAX).for_each(|_| names.confirmed(&mut facts, 0));
        assert_eq!(routing(&facts), Routing::Prefix, "it is not written again");
        assert!(names.marked.is_some_and(|mark| mark.name == 2));
    }

    /// The verdict on one counts for its kind; the other one has an older verdict of its own.
    #[test]
    fn two_names_of_a_kind_are_cached_when_one_has_been_tried() {
        let mut facts = facts(false);
        facts.config.caches_parts = true;
        let mut watch = NameWatch::new(&facts.config, &[]);
        let why = Why::OfNodes(Hints::Apart);
        for (name, tried) in [(1, false), (2, true), (1, true), (2, false)] {
            watch.judged(&mut facts, 0, Judgement { name, kind: 3, why, tried });
        }
        assert!(!watch.is_undecided(&facts, 0), "{:?}", watch.shared[0].stay);
    }

    /// Else ROMIO's ranks come to different collectives, and some cache what others write there.
    #[test]
    fn all_ranks_see_the_same_of_the_next_file_whoever_has_written_the_last_one() {
        let name = name_hash("s");
        let seen = |writes: bool| {
            let mut facts = facts(false);
            facts.config.caches_parts = true;
            let mut watch = NameWatch::new(&facts.config, &[]);
            let why = Why::OfNodes(Hints::Apart);
            for tried in [false, true] {
                watch.judged(&mut facts, 0, Judgement { name, kind: name, why, tried });
            }
            let key = DatasetKey::new(0, "", 0);
            if writes {
                write(&mut facts, &key, &file("", "s"), 1);
            }
            share(&mut facts, &key, DatasetState::Open);
            facts.agreement.count += 2;
            [false, true].map(|waits| {
                watch.shared[0].wait(waits, &facts.shared.series[0]);
                let file = file("", "s");
                (watch.hints(&facts, &file), watch.is_parted(&facts, &file))
            })
        };
        let wanted = [(Some(Hints::Apart), true), (None, false)];
        assert_eq!([false, true].map(seen), [wanted; 2]);
    }
}
