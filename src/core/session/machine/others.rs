//! Deletions across ranks: a rank removes a file that another one wrote, and that one may write it
//! again. Told at the next conference; what a sync point puts in order keeps its order.

use super::Machine;
use super::keys::FileRef;
use super::report::Report;

/// What a conference has told this rank of other ranks' doings; the caller acts on it at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heard {
    /// Files of this rank that another rank deleted: to be deleted here as if the program had done
    /// it on this rank.
    pub deleted: Vec<String>,
    /// Files that another rank has written again: there is nothing deleted about them any more.
    pub revived: Vec<String>,
}

impl Machine {
    /// This rank deletes a file that it does not hold: whoever holds it must know.
    pub(super) fn tell_deleted(&mut self, file: &FileRef) {
        let count = self.agreement.count;
        self.series[file.series].news.deleted.push((file.name.clone(), count));
        self.agreement.changed(2);
    }

    /// This rank writes a file again that another rank has deleted: that rank must know.
    pub(super) fn tell_revived(&mut self, file: &FileRef) {
        let series = &mut self.series[file.series];
        if series.deleted_elsewhere.remove(&file.name) {
            series.news.revived.push(file.name.clone());
            self.agreement.changed(2);
        }
    }

    /// What the others' reports say of this rank's files, and of those that it deleted.
    pub(super) fn listen(&mut self, reports: &[Report]) -> Heard {
        let mut heard = Heard::default();
        let others = reports.iter().enumerate().filter(|(rank, _)| *rank != self.config.rank);
        for (index, news) in others.flat_map(|(_, report)| report.series.iter().enumerate()) {
            let local = &mut self.series[index];
            for name in &news.revived {
                local.tombstones.retain(|tombstone| tombstone.name != *name);
                heard.revived.push(name.clone());
            }
            for (name, count) in &news.deleted {
                let mut holders = local.datasets.iter().rev();
                let Some(holder) = holders.find(|dataset| dataset.holds(name)) else { continue };
                let is_older = holder.files.get(name).is_some_and(|file| {
                    file.open == 0 && file.closed_before.is_some_and(|sync| sync <= *count)
                });
                if is_older {
                    local.deleted_elsewhere.insert(name.clone());
                    heard.deleted.push(name.clone());
                } else {
                    // Written after that deletion, or at the same time.
                    local.news.revived.push(name.clone());
                    self.agreement.changed(2);
                }
            }
        }
        heard
    }
}
