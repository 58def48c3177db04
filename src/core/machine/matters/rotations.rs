//! Renames: the end of writing a file, or, without ids, the begin of a checkpoint whose program
//! first moves the files of its last ones out of the way (`s.1` to `s.2`, `s` to `s.1`).
//!
//! Nothing says which of the two a rename is. If the first one of a rotation is taken for the last
//! one of a checkpoint, it changes that one, which is sealed, and of which the next rename then
//! takes a file away: it would never be known to be complete.
//!
//! The same with copies (`s` to `s.1`, then a new `s`): `s.1` appears when the second checkpoint
//! begins, and looks like a late part of the first. If that stayed so, each checkpoint would be
//! complete only when the next one begins.

use std::collections::BTreeSet;

use crate::machine::state::dataset::{LocalDataset, Standing};
use crate::machine::state::file::LocalFile;
use crate::machine::state::ledger::MachineLedger;
use crate::machine::terms::keys::{DatasetKey, FileRef};
use crate::machine::terms::names::name_hash;
use crate::patterns::Template;

/// The matter of rotations.
#[derive(Debug, Clone)]
pub struct Rotations {
    /// By series, without ids: names ([`name_hash`]) that a checkpoint begins with, if the first
    /// one did not have them.
    leaders: Vec<BTreeSet<u64>>,
}

impl Rotations {
    pub fn new(series: usize) -> Self {
        Rotations { leaders: vec![BTreeSet::new(); series] }
    }

    pub fn target_of_rename(
        &self,
        ledger: &MachineLedger,
        from: Option<&FileRef>,
        to: &FileRef,
    ) -> DatasetKey {
        let key = ledger.target(to);
        match from {
            Some(from)
                if Self::is_moved_aside(ledger, from, to, &key) || self.leads(ledger, &key, to) =>
            {
                DatasetKey { generation: key.generation + 1, ..key }
            }
            _ => key,
        }
    }

    /// The file is one of the checkpoint `key`, which is over: the program makes room for its next
    /// one. Of the first ones of a series nothing is known but that it has been quiet, and what
    /// names look like.
    fn is_moved_aside(
        ledger: &MachineLedger,
        from: &FileRef,
        to: &FileRef,
        key: &DatasetKey,
    ) -> bool {
        let holder = ledger.holder(from).filter(|(holder, _)| holder == key);
        let Some((_, status)) = holder.filter(|_| !ledger.config.series[to.series].has_id) else {
            return false;
        };
        let over = || match ledger.is_full(key) {
            Some(full) => full,
            None => status == Standing::Provisional && !loses_decoration(from, to),
        };
        ledger.written_before(key, from) && over()
    }

    /// Tells whether, without ids, the program begins the checkpoint after `newest` with this file.
    pub fn leads(&self, ledger: &MachineLedger, newest: &DatasetKey, file: &FileRef) -> bool {
        let local = &ledger.series[newest.series];
        let count = ledger.agreement.count;
        let is_over = |dataset: &LocalDataset| {
            !dataset.holds(&file.name) && dataset.files.values().all(|file| file.is_past(count))
        };
        self.leaders[newest.series].contains(&name_hash(&file.masked))
            && local.find(newest).is_some_and(is_over)
            && ledger.is_full_but(newest, &self.leaders[newest.series]) != Some(false)
    }

    /// Notes that the checkpoint `next` begins. What the one before got long after the rest of it
    /// and shortly before this, with a sync point before but none since, is a part of this one: so
    /// it will be from the next one on. (With a sync point since it could be the last part of the
    /// one before, of a program that takes as long for a part as for the way to its next
    /// checkpoint.)
    pub fn note_leaders(&mut self, ledger: &MachineLedger, next: &DatasetKey) {
        const TIMES_NEARER: u64 = 2;
        let (local, count) = (&ledger.series[next.series], ledger.agreement.count);
        if ledger.config.series[next.series].has_id || local.find(next).is_some() {
            return;
        }
        let Some(dataset) = next.before().and_then(|before| local.find(&before)) else { return };
        let mut files: Vec<&LocalFile> = dataset.files.values().collect();
        files.sort_by_key(|file| file.closed_ms);
        let is_late = |pair: &[&LocalFile]| {
            let (rest, late) = (pair[0], pair[1]);
            let near_ms = ledger.clock_ms.saturating_sub(late.closed_ms);
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
