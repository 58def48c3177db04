//! Renames: the end of writing a file, or, without ids, the begin of a checkpoint whose program
//! first moves its last ones away (`s.1` to `s.2`, `s` to `s.1`). If the first rename of a rotation
//! is taken for the end of a checkpoint, it changes one that is sealed, which is then never
//! complete. With copies (`s` to `s.1`, then a new `s`), `s.1` looks like a late part of the first
//! checkpoint, and each would be complete only when the next one begins.

use std::collections::BTreeSet;

use crate::machine::state::{LocalDataset, LocalFile, RunFacts, Status};
use crate::machine::terms::{DatasetKey, FileRef, name_hash};
use crate::patterns::Template;

#[derive(Debug, Clone)]
pub struct Rotations {
    /// By series, without ids: hashes of names that a checkpoint begins with, if the first one did
    /// not have them.
    leaders: Vec<BTreeSet<u64>>,
}

impl Rotations {
    pub fn new(series: usize) -> Self {
        Rotations { leaders: vec![BTreeSet::new(); series] }
    }

    pub fn target_of_rename(
        &self,
        facts: &RunFacts,
        from: Option<&FileRef>,
        to: &FileRef,
    ) -> DatasetKey {
        let key = facts.target(to);
        match from {
            Some(from)
                if Self::is_moved_aside(facts, from, to, &key) || self.leads(facts, &key, to) =>
            {
                DatasetKey { generation: key.generation + 1, ..key }
            }
            _ => key,
        }
    }

    /// The file is one of the checkpoint `key`, which is over: the program makes room for its next
    /// one. Of the first ones of a series only quiet and names tell that.
    fn is_moved_aside(facts: &RunFacts, from: &FileRef, to: &FileRef, key: &DatasetKey) -> bool {
        let holder = facts.holder(from).filter(|(holder, _)| holder == key);
        let Some((_, status)) = holder.filter(|_| !facts.config.series[to.series].has_id) else {
            return false;
        };
        let over = || match facts.is_full(key) {
            Some(full) => full,
            None => status == Status::Provisional && !loses_decoration(from, to),
        };
        facts.written_before(key, from) && over()
    }

    /// Tells whether, without ids, the program begins the checkpoint after `newest` with this file.
    pub fn leads(&self, facts: &RunFacts, newest: &DatasetKey, file: &FileRef) -> bool {
        let local = &facts.series[newest.series];
        let count = facts.agreement.count;
        let is_over = |dataset: &LocalDataset| {
            !dataset.holds(&file.name) && dataset.files.values().all(|file| file.is_past(count))
        };
        self.leaders[newest.series].contains(&name_hash(&file.masked))
            && local.find(newest).is_some_and(is_over)
            && facts.is_full_but(newest, &self.leaders[newest.series]) != Some(false)
    }

    /// Notes that the checkpoint `next` begins. What the one before got long after its rest and
    /// shortly before this is a part of this one, from the next one on, if a sync point lies before
    /// it but none since. (With one since, it could be the last part of the one before, of a
    /// program that takes as long for a part as for the way to its next checkpoint.)
    pub fn note_leaders(&mut self, facts: &RunFacts, next: &DatasetKey) {
        const TIMES_NEARER: u64 = 2;
        let (local, count) = (&facts.series[next.series], facts.agreement.count);
        if facts.config.series[next.series].has_id || local.find(next).is_some() {
            return;
        }
        let Some(dataset) = next.before().and_then(|before| local.find(&before)) else { return };
        let mut files: Vec<&LocalFile> = dataset.files.values().collect();
        files.sort_by_key(|file| file.closed_ms);
        let is_late = |pair: &[&LocalFile]| {
            let (rest, late) = (pair[0], pair[1]);
            let near_ms = facts.clock_ms.saturating_sub(late.closed_ms);
            let far_ms = late.closed_ms.saturating_sub(rest.closed_ms);
            rest.is_past(count)
                && (late.open == 0 && !late.is_past(count))
                && near_ms * TIMES_NEARER <= far_ms
        };
        let Some(at) = files.windows(2).position(is_late) else { return };
        let leaders = files[at + 1..].iter().map(|file| file.named.masked).collect();
        self.leaders[next.series] = leaders;
    }
}

/// The old name is the new one with something around it.
fn loses_decoration(from: &FileRef, to: &FileRef) -> bool {
    Template::learn(&from.name, &to.name).is_some_and(|template| template.strips())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::{facts, file, write};

    #[test]
    fn what_comes_long_after_the_rest_and_just_before_the_next_one_leads_it() {
        // When the last file of a checkpoint is written, and the next one begins, after the rest.
        for (late_ms, next_ms, leads) in [(100, 110, true), (100, 151, false), (100, 150, true)] {
            let (mut facts, mut rotations) = (facts(false), Rotations::new(1));
            let keys = [0, 1].map(|generation| DatasetKey::new(0, "", generation));
            write(&mut facts, &keys[0], &file("", "s"), 0);
            facts.agreement.count += 1;
            write(&mut facts, &keys[0], &file("", "s.old"), late_ms);
            facts.tick(next_ms);
            rotations.note_leaders(&facts, &keys[1]);
            write(&mut facts, &keys[1], &file("", "s"), next_ms);
            facts.agreement.count += 1;
            let row = (late_ms, next_ms);
            assert_eq!(rotations.leads(&facts, &keys[1], &file("", "s.old")), leads, "{row:?}");
            assert!(!rotations.leads(&facts, &keys[1], &file("", "other")));
        }
    }
}
