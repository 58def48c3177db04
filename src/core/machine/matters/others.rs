//! What a rank does with files that another one wrote: it removes, makes or changes them. The
//! others hear of it at the next conference; what a sync point puts in order keeps its order.

use std::collections::BTreeSet;

use super::logs::Restless;
use crate::comm::ranks::ranks_phrase;
use crate::machine::state::{DatasetState, LocalFile, Phase, RunFacts};
use crate::machine::terms::{DatasetKey, DatasetReport, FileRef, Report, SeriesReport};

/// A file that several ranks have; the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contested {
    pub file: FileRef,
    /// The first rank first.
    pub ranks: Vec<usize>,
    /// Why no rank has all of the file, if their contents differ.
    pub spoiled: Option<String>,
}

pub fn contested_reason(name: &str, writers: &str) -> String {
    format!(
        "{name} was written by {writers}, too, and no rank has all of it. From now on such files \
         go straight to the PFS; SCR_LEARN=0 and \":own\" are for files that one rank writes"
    )
}

/// Says why a file is not kept of which each node has a part.
pub fn unclear_reason(name: &str) -> String {
    format!(
        "ranks of several nodes have written the same bytes of {name} between two collective \
         calls, or in a way that SCR cannot follow, and nobody knows who was last (later files of \
         the name are written to the PFS)"
    )
}

pub fn parted_reason(name: &str, writers: &str) -> String {
    format!(
        "{name} was written by {writers}, and no node has all of it. From now on such files go \
         straight to the prefix, where all of them write to one; with SCR_CACHE_BYPASS=1 they do \
         from the first one on"
    )
}

/// What a conference has told this rank of other ranks' doings; the caller acts on it at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overheard {
    /// Files of this rank, to be deleted as if the program had done it on this rank.
    pub deleted: Vec<String>,
    /// Those of `deleted` that were unlinked, and name no checkpoint.
    pub unlinked: Vec<String>,
    /// Files that complete datasets, of any rank, go on without.
    pub amended: Vec<(DatasetKey, String)>,
    /// Files that another rank has written again: their deletion is void.
    pub revived: Vec<String>,
    /// Files of which another rank than their writer has put the newest content on the PFS.
    pub taken: Vec<String>,
    /// Copies of `taken` in this rank's cache that belong to no dataset any more.
    pub dropped: Vec<(DatasetKey, String)>,
    /// Names that turn out to be never quiet; the same on all ranks.
    pub restless: Vec<Restless>,
}

#[derive(Debug, Clone, Default)]
struct SeriesOthers {
    /// Files of this rank that another rank deleted, not written again since.
    deleted_elsewhere: BTreeSet<String>,
    /// Files that another rank of the node has made, as this one was told when it happened.
    made_near: BTreeSet<String>,
    /// What the others are to hear: what [`SeriesReport`] has of that.
    news: SeriesReport,
}

#[derive(Debug, Clone)]
pub struct Others {
    series: Vec<SeriesOthers>,
}

impl Others {
    pub fn new(series: usize) -> Self {
        Others { series: vec![SeriesOthers::default(); series] }
    }

    pub fn take_news(&mut self, series: usize) -> SeriesReport {
        std::mem::take(&mut self.series[series].news)
    }

    /// Tells the others that this rank begins to write a file of another one.
    pub fn tell_begun(&mut self, facts: &RunFacts, file: &FileRef) {
        let begun = &mut self.series[file.series].news.begun;
        if !begun.iter().any(|(name, _)| *name == file.name) {
            begun.push((file.name.clone(), facts.agreement.count));
        }
    }

    /// Tells that the PFS has the newest content of a file, even while files are open: until it
    /// knows, the rank that has written it reads its own copy.
    pub fn tell_taken(&mut self, facts: &mut RunFacts, file: &FileRef) {
        let taken = &mut self.series[file.series].news.taken;
        taken.retain(|(name, _)| *name != file.name);
        taken.push((file.name.clone(), facts.agreement.count));
        facts.agreement.changed(2);
    }

    pub fn tell_moved(&mut self, file: &FileRef) {
        let news = &mut self.series[file.series].news;
        if news.deleted.last().is_some_and(|(name, _)| *name == file.name) {
            news.moved.push(file.name.clone());
        }
    }

    /// Notes that another rank of the node has made the file: no deletion of it is told that nobody
    /// has heard of yet.
    pub fn note_made_near(&mut self, file: &FileRef) {
        const NAMES_MAX: usize = 4096;
        let own = &mut self.series[file.series];
        own.news.deleted.retain(|(name, _)| *name != file.name);
        if own.made_near.len() >= NAMES_MAX {
            own.made_near.clear();
        }
        own.made_near.insert(file.name.clone());
    }

    pub fn tell_deleted(&mut self, facts: &mut RunFacts, file: &FileRef) {
        let count = facts.agreement.count;
        self.series[file.series].news.deleted.push((file.name.clone(), count));
        facts.agreement.changed(2);
    }

    pub fn tell_revived(&mut self, facts: &mut RunFacts, file: &FileRef) {
        let series = &mut self.series[file.series];
        if series.deleted_elsewhere.remove(&file.name) {
            series.news.revived.push(file.name.clone());
            facts.agreement.changed(2);
        }
    }

    pub fn listen(&mut self, facts: &mut RunFacts, reports: &[Report]) -> Overheard {
        let mut heard =
            Overheard { amended: listen_amended(facts, reports), ..Overheard::default() };
        let own = facts.config.rank;
        let others = reports.iter().enumerate().filter(|(rank, _)| *rank != own);
        let news = others.flat_map(|(rank, report)| {
            report.series.iter().enumerate().map(move |(index, news)| (rank, index, news))
        });
        for (rank, index, news) in news {
            let near = facts.config.nodes[rank] == facts.config.nodes[own];
            let (local, others) = (&mut facts.series[index], &mut self.series[index]);
            for name in &news.revived {
                if near && others.made_near.remove(name) {
                    continue; // known when it happened; it may have been deleted since
                }
                heard.revived.push(name.clone());
            }
            for (name, count) in &news.deleted {
                let mut holders = local.datasets.iter().rev();
                let Some(holder) = holders.find(|dataset| dataset.holds(name)) else { continue };
                let is_older = holder.files.get(name).is_some_and(|file| {
                    let before = file.closed_before.is_some_and(|sync| sync <= *count);
                    file.open == 0 && (before || file.outlived)
                });
                if is_older {
                    if news.moved.contains(name) {
                        local.note_moved(name);
                    }
                    others.deleted_elsewhere.insert(name.clone());
                    heard.deleted.push(name.clone());
                    if news.unlinked.contains(name) {
                        heard.unlinked.push(name.clone());
                    }
                } else {
                    // Written after that deletion, or at the same time.
                    others.news.revived.push(name.clone());
                    facts.agreement.changed(2);
                }
            }
            give_away(facts, index, news, &mut heard);
        }
        heard
    }

    pub fn forget_near(&mut self) {
        self.series.iter_mut().for_each(|series| series.made_near.clear());
    }
}

/// Finds a file of `key` on the PFS that a private copy of a rank has replaced after a rank of
/// another node had begun to write it: its content is lost. The catalog cannot tell, since both
/// have it on the PFS. (Ranks of one node do such things one after the other.)
pub fn overwritten(
    facts: &RunFacts,
    key: &DatasetKey,
    reports: &[Report],
) -> Option<(usize, String)> {
    let nodes = &facts.config.nodes;
    let of_key = |report: &&DatasetReport| report.key == *key;
    reports.iter().enumerate().find_map(|(rank, report)| {
        let replaced = &report.datasets.iter().find(of_key)?.replaced;
        replaced.iter().find_map(|(name, count)| {
            let lost = |(begun, before): &(String, u64)| begun == name && before <= count;
            let mut others = reports.iter().enumerate();
            let (writer, _) = others.find(|(other, report)| {
                nodes[*other] != nodes[rank] && report.series[key.series].begun.iter().any(lost)
            })?;
            Some((rank, contested_reason(name, &ranks_phrase(&[writer]))))
        })
    })
}

fn listen_amended(facts: &RunFacts, reports: &[Report]) -> Vec<(DatasetKey, String)> {
    let news = reports.iter().flat_map(|report| report.series.iter().enumerate());
    let all = news.flat_map(|(index, news)| news.amended.iter().map(move |one| (index, one)));
    let keyed = all.filter_map(|(index, (name, id))| {
        let dataset = facts.shared.series[index].datasets.iter().find(|one| one.id == *id)?;
        Some((dataset.key.clone(), name.clone()))
    });
    keyed.collect()
}

/// Another rank has taken the file over: a complete dataset keeps its version, for a restart; one
/// in progress has it from that rank.
fn give_away(facts: &mut RunFacts, series: usize, news: &SeriesReport, heard: &mut Overheard) {
    for (name, count) in &news.taken {
        let datasets = &mut facts.series[series].datasets;
        let newer = |file: &LocalFile| {
            file.open > 0 || file.closed_before.is_some_and(|sync| sync > *count)
        };
        if datasets.iter().filter_map(|dataset| dataset.files.get(name)).any(newer) {
            continue; // written after that, or at the same time
        }
        heard.taken.push(name.clone());
        for dataset in datasets {
            let Some(file) = dataset.files.get_mut(name) else { continue };
            let shared = facts.shared.find(&dataset.key).map(|shared| shared.state);
            let sealed = shared.is_some_and(|state| state != DatasetState::Open);
            if dataset.explicit.is_some() && !sealed {
                continue; // the program says by calls what is in it
            }
            if sealed || dataset.phase != Phase::Open {
                file.share();
            } else {
                dataset.files.remove(name);
                heard.dropped.push((dataset.key.clone(), name.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::{facts, file, reports, share, write};

    #[test]
    fn what_was_written_before_it_was_taken_away_is_gone_and_what_came_later_is_there() {
        // Sync points that the other rank had passed; whether the file counts as older.
        for (count, older) in [(0, false), (1, true)] {
            let (mut facts, mut others) = (facts(true), Others::new(1));
            let key = DatasetKey::new(0, "1", 0);
            write(&mut facts, &key, &file("1", "s1"), 1);
            let deleted = vec![("s1".to_string(), count)];
            let news = SeriesReport { deleted, ..SeriesReport::default() };
            let heard = others.listen(&mut facts, &reports(news));
            assert_eq!(heard.deleted, if older { vec!["s1"] } else { vec![] });
            let revived = others.take_news(0).revived;
            assert_eq!(revived, if older { vec![] } else { vec!["s1"] }, "that rank must know");
            others.tell_revived(&mut facts, &file("1", "s1"));
            assert_eq!(others.take_news(0).revived.len(), usize::from(older), "written again");
        }
    }

    #[test]
    fn a_complete_dataset_keeps_its_version_of_what_another_rank_changes() {
        for (state, dropped) in [(DatasetState::Confirmed, 0), (DatasetState::Open, 1)] {
            let (mut facts, mut others) = (facts(true), Others::new(1));
            let key = DatasetKey::new(0, "1", 0);
            write(&mut facts, &key, &file("1", "s1"), 1);
            share(&mut facts, &key, state);
            let taken = vec![("s1".to_string(), 1)];
            let news = SeriesReport { taken, ..SeriesReport::default() };
            let heard = others.listen(&mut facts, &reports(news));
            assert_eq!((heard.taken.len(), heard.dropped.len()), (1, dropped), "{state:?}");
            let keeps = facts.file(&key, "s1").is_some_and(|held| held.keeps_copy && held.moved);
            assert_eq!(keeps, dropped == 0);
        }
    }
}
