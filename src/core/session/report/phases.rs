//! The program's phases for the log of events, as rank 0 sees them: a dataset begins with the first
//! file of it that is opened for writing; what is between datasets is computing.

use std::time::Instant;

use crate::account::tally::Count;
use crate::events::Event;
use crate::machine::DatasetKey;
use crate::session::{rank::lock, report::Reporter};

impl Reporter {
    pub(crate) fn compute_begun(&self) {
        if self.rank.logs() {
            lock(&self.phases).computes = Some(Instant::now());
            self.rank.event(|| Event::new("COMPUTE_BEGIN"));
        }
    }

    pub(crate) fn compute_ended(&self) {
        let since = lock(&self.phases).computes.take();
        if let Some(since) = since {
            let seconds = since.elapsed().as_secs_f64();
            self.rank.event(|| Event::new("COMPUTE_END").seconds(seconds));
        }
    }

    pub(crate) fn write_begun(&self, key: &DatasetKey) {
        let series = &self.rank.series.series()[key.series];
        // One without its id yet belongs to a dataset that begins by itself.
        if !self.rank.logs() || series.has_id && key.id.is_empty() {
            return;
        }
        self.compute_ended();
        lock(&self.phases).writes.insert(key.clone(), Instant::now());
        let what = if series.checkpoint { "CHECKPOINT_BEGIN" } else { "OUTPUT_BEGIN" };
        self.rank.dataset_event(what, key, 0, |event| event);
    }

    /// Logs what the dataset cost the program, from the first file on.
    pub(crate) fn write_ended(&self, key: &DatasetKey, id: u64) {
        let begun = lock(&self.phases).writes.get(key).copied();
        if let Some(begun) = begun {
            let series = &self.rank.series.series()[key.series];
            let what = if series.checkpoint { "CHECKPOINT_END" } else { "OUTPUT_END" };
            self.rank
                .dataset_event(what, key, id, |event| event.seconds(begun.elapsed().as_secs_f64()));
            self.write_given_up(key);
        }
    }

    /// Notes that the dataset is not being written any more, sealed or not.
    pub(crate) fn write_given_up(&self, key: &DatasetKey) {
        let mut known = lock(&self.phases);
        let was_last = known.writes.remove(key).is_some() && known.writes.is_empty();
        drop(known);
        if was_last {
            self.compute_begun();
        }
    }

    /// Notes that the program's own work begins.
    pub(crate) fn started(&self, begin: Instant) {
        self.rank.tally.time(Count::StartNs, begin);
        self.rank.event(|| Event::new("STARTED").seconds(begin.elapsed().as_secs_f64()));
        self.compute_begun();
    }
}
