//! Why a file goes to the prefix, and not to the cache.

use super::places::is_overfull;
use crate::machine::matters::unsealed::Unsealed;
use crate::machine::matters::watch::NameWatch;
use crate::machine::state::dataset::LocalDataset;
use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::Routing;
use crate::machine::terms::keys::{DatasetKey, FileRef};
use crate::machine::terms::names::name_hash;
use crate::machine::terms::reason::Reason;

/// Judges where a new file goes.
pub struct Reasons<'a> {
    pub ledger: &'a MachineLedger,
    pub watch: &'a NameWatch,
    pub unsealed: &'a Unsealed,
}

impl Reasons<'_> {
    /// Tells why a new open of `file` in the dataset `key` goes to the prefix; `None`: to the
    /// cache.
    pub fn reason_for(&self, file: &FileRef, key: &DatasetKey) -> Option<Reason> {
        let ledger = self.ledger;
        let own = ledger.series[key.series].find(key).and_then(|own| own.files.get(&file.name));
        if let Some(reason) = own.and_then(|own| own.on_prefix) {
            return Some(reason);
        }
        if ledger.is_open_in_cache(key, &file.name) {
            return None;
        }
        let stays = self.stays_on_prefix(file);
        if stays.is_some() {
            return stays;
        }
        if self.unsealed.is_out_of_reach(ledger, file, key) {
            return Some(Reason::NoAgreement);
        }
        let spilled = ledger.shared.find(key).is_some_and(|dataset| dataset.failing.prefix_only);
        (spilled || ledger.is_rest(key)).then_some(Reason::Unsealable)
    }

    /// Tells why new files of that name go to the prefix, if they do.
    pub fn stays_on_prefix(&self, file: &FileRef) -> Option<Reason> {
        let ledger = self.ledger;
        match ledger.shared.series[file.series].routing {
            Routing::Learning => return Some(Reason::Watched),
            Routing::Prefix => return Some(self.watch.why_series_stays(file)),
            Routing::Cache | Routing::Trial => {}
        }
        if (ledger.shared.fallen_back || ledger.falls_back) && !goes_with_cached(ledger, file) {
            return Some(Reason::FallenBack);
        }
        if let Some(why) = self.watch.why(file.series, name_hash(&file.masked)) {
            return Some(Reason::Learned(why));
        }
        if self.watch.is_new(ledger, file) {
            return Some(Reason::Watched);
        }
        is_overfull(ledger, file.series).then_some(Reason::WaitsForFlush)
    }
}

/// Does what `Machine::goes_with_cached` does.
pub fn goes_with_cached(ledger: &MachineLedger, file: &FileRef) -> bool {
    if file.id.is_some() || !ledger.config.series[file.series].has_id || ledger.is_passive() {
        return false;
    }
    let own = ledger.series[file.series].find(&ledger.target(file));
    let cached = |own: &LocalDataset| own.files.values().any(|file| file.on_prefix.is_none());
    !ledger.shared.fallen_back || own.is_some_and(cached)
}
