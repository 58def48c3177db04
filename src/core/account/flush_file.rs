//! What the flush file says.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::transfer::Watch;

const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DatasetPlaces {
    pub(crate) cached: BTreeMap<u64, Option<String>>,
    /// With the bytes that have come and are to come, once somebody has looked.
    pub(crate) flushing: BTreeMap<u64, Option<(u64, u64)>>,
}

#[derive(Default)]
pub(crate) struct PlacesTold {
    pub(crate) told: Option<DatasetPlaces>,
    watched: BTreeMap<u64, Watch>,
    looked: Option<Instant>,
}

impl PlacesTold {
    /// Looks how far the flushes in `now` have come, unless that was done a moment ago.
    pub(crate) fn look(&mut self, prefix: &Path, now: &mut DatasetPlaces) {
        self.watched.retain(|id, _| now.flushing.contains_key(id));
        if now.flushing.is_empty() {
            return;
        }
        if self.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            let before = self.told.iter().flat_map(|told| &told.flushing);
            before.for_each(|(id, progress)| {
                now.flushing.entry(*id).and_modify(|now| *now = *progress);
            });
            return;
        }
        self.looked = Some(Instant::now());
        for (id, progress) in &mut now.flushing {
            if let Entry::Vacant(place) = self.watched.entry(*id)
                && let Ok(watch) = Watch::new(prefix, *id)
            {
                place.insert(watch);
            }
            let watch = self.watched.get(id).filter(|watch| watch.bytes > 0);
            *progress = watch.map(|watch| (watch.bytes_done(prefix), watch.bytes));
        }
    }
}
