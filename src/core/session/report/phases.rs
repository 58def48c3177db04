//! The program's phases for the log of events, as rank 0 sees them: a dataset begins with the first
//! file of it that is opened for writing; what is between datasets is computing.

use std::time::Instant;

use crate::account::tally::Count;
use crate::events::Event;
use crate::machine::DatasetKey;
use crate::session::{rank::lock, report::Reporter};
use crate::system::monotonic_ms;

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
        lock(&self.phases).writes.insert(key.clone(), monotonic_ms());
        let what = if series.checkpoint { "CHECKPOINT_BEGIN" } else { "OUTPUT_BEGIN" };
        self.rank.dataset_event(what, key, 0, |event| event);
    }

    /// Logs what the dataset cost the program: from the first file on until it was `written`, and
    /// the seconds of its seal.
    pub(crate) fn write_ended(&self, key: &DatasetKey, id: u64, written_ms: u64, seal: f64) {
        let begun = lock(&self.phases).writes.get(key).copied();
        if let Some(begun) = begun {
            let series = &self.rank.series.series()[key.series];
            let what = if series.checkpoint { "CHECKPOINT_END" } else { "OUTPUT_END" };
            let seconds = written_ms.saturating_sub(begun) as f64 / 1000.0 + seal;
            self.rank.dataset_event(what, key, id, |event| event.seconds(seconds));
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
