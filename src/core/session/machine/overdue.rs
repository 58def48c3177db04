//! Files that wait for an agreement for too long go to the PFS without one.

use super::Machine;
use super::keys::DatasetKey;
use super::local::Phase;
use super::steps::Overdue;

impl Machine {
    /// Closed files in cache that wait for a seal for too long: the helper thread copies each to
    /// the PFS under its own name, then calls [`Machine::published`]. Until the next agreement new
    /// files go to the PFS.
    pub fn overdue(&mut self, now_ms: u64) -> Vec<Overdue> {
        self.tick(now_ms);
        let mut overdue = Vec::new();
        for series in &self.series {
            for (at, dataset) in series.datasets.iter().enumerate() {
                if dataset.phase != Phase::Open || !dataset.begun {
                    continue;
                }
                let newer = &series.datasets[at + 1..];
                let later =
                    newer.iter().filter(|dataset| dataset.phase == Phase::Open && dataset.begun);
                let at_once = later.count() >= 2 || self.agreement.disabled || self.ended;
                for (name, file) in &dataset.files {
                    let old = now_ms.saturating_sub(file.closed_ms) >= self.config.unsealed_ms;
                    if file.open == 0
                        && !file.on_prefix
                        && !file.published
                        && !file.deleted
                        && (at_once || old)
                        && !newer.iter().any(|newer| newer.files.contains_key(name))
                    {
                        let (key, file) = (dataset.key.clone(), name.clone());
                        overdue.push(Overdue { key, file });
                    }
                }
            }
        }
        self.unreachable |= !overdue.is_empty();
        overdue
    }

    /// An overdue file is on the PFS (unless it was opened again meanwhile).
    pub fn published(&mut self, key: &DatasetKey, name: &str) {
        if let Some(dataset) = self.series[key.series].find_mut(key)
            && let Some(file) = dataset.files.get_mut(name)
        {
            file.published = file.open == 0;
        }
    }
}
