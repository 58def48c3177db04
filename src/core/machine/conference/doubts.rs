//! Whether the program still sees files of a dataset that only the cache has: what the last reports
//! say of that may be out of date, and then the next ones are waited for, once.

use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::SharedDataset;

/// What is in doubt in a series; equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Doubt {
    /// One was confirmed since the last reports: it may have what was live of older ones.
    pub confirms: bool,
    /// Something waits for the next reports to tell that, or has waited for these: not again.
    waits: bool,
    waited: bool,
}

impl Doubt {
    /// Notes that there are reports.
    pub fn reported(&mut self) {
        *self = Doubt { confirms: false, waits: false, waited: self.waits };
    }

    /// Waits for the next reports.
    pub fn wait(&mut self, ledger: &mut MachineLedger) {
        self.waits = true;
        ledger.agreement.changed(1);
    }

    /// Tells whether it is unknown if the program still sees files of the dataset that only the
    /// cache has.
    pub fn is_unsure(&self, dataset: &SharedDataset) -> bool {
        let unsure = self.confirms && !self.waited;
        unsure && dataset.told.live && !dataset.due && !dataset.flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::terms::config::MachineConfig;
    use crate::machine::terms::keys::DatasetKey;

    #[test]
    fn what_is_in_doubt_is_waited_for_once() {
        let mut ledger = MachineLedger::new(MachineConfig::new(0, vec![0], Vec::new()), &[], 0);
        let mut dataset = SharedDataset::new(DatasetKey::new(0, "1", 0));
        dataset.told.live = true;
        let mut doubt = Doubt::default();
        assert!(!doubt.is_unsure(&dataset), "nothing newer");
        doubt.confirms = true;
        assert!(doubt.is_unsure(&dataset));
        doubt.wait(&mut ledger);
        doubt.reported();
        doubt.confirms = true;
        assert!(!doubt.is_unsure(&dataset), "it has waited");
        doubt.reported();
        doubt.confirms = true;
        assert!(doubt.is_unsure(&dataset), "nothing waited for these");
        dataset.flushed = true;
        assert!(!doubt.is_unsure(&dataset), "the PFS has it");
    }
}
