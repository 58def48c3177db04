//! Whether the program still sees files of a dataset that only the cache has: the last reports may
//! be out of date, and then the next ones are waited for, once.

use crate::machine::state::{RunFacts, SharedDataset};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Doubt {
    /// One was confirmed since the last reports: it may have what was live of older ones.
    pub confirms: bool,
    /// Something waits for the next reports; in `waited`: has waited for these, and does not wait
    /// again.
    waits: bool,
    waited: bool,
}

impl Doubt {
    pub fn reported(&mut self) {
        *self = Doubt { confirms: false, waits: false, waited: self.waits };
    }

    pub fn wait(&mut self, facts: &mut RunFacts) {
        self.waits = true;
        facts.agreement.changed(1);
    }

    pub fn is_unsure(&self, dataset: &SharedDataset) -> bool {
        let unsure = self.confirms && !self.waited;
        unsure && dataset.told.live && !dataset.due && !dataset.flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::facts;
    use crate::machine::terms::DatasetKey;

    #[test]
    fn what_is_in_doubt_is_waited_for_once() {
        let mut facts = facts(true);
        let mut dataset = SharedDataset::new(DatasetKey::new(0, "1", 0));
        dataset.told.live = true;
        let mut doubt = Doubt::default();
        assert!(!doubt.is_unsure(&dataset), "nothing newer");
        doubt.confirms = true;
        assert!(doubt.is_unsure(&dataset));
        doubt.wait(&mut facts);
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
