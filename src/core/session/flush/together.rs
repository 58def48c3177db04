//! Flushes that all ranks make together, and what goes along with them.

use crate::error::{Error, Result};
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{DatasetKey, Outcome};
use crate::session::{flush::Flusher, rank::lock};
use crate::transfer::{Along, FlushReport, flush_with};

impl Flusher {
    /// Takes along files of older datasets; goes by threads, if the user wants that and there are
    /// none. Collective.
    pub(crate) fn flush(
        &self,
        links: &Links,
        key: &DatasetKey,
        id: u64,
        along: &[DatasetKey],
    ) -> Result<Outcome> {
        let begun = self.flushes().contains_key(&id);
        if !begun && !self.has_to_flush(links, key, along)? {
            return Ok(Outcome::Done);
        }
        let by_threads = begun || self.flushes_async(key);
        if by_threads
            && along.is_empty()
            && let Some(outcome) = self.flush_async(links, key, id)?
        {
            return Ok(outcome);
        }
        let left_out = |name: &str| self.node.state().machine.is_left_out(key, name);
        // One of this dataset that is under way by threads takes nothing along.
        self.complete_flushes(links, id + u64::from(!along.is_empty()))?;
        let (all, along) = (along.iter(), &self.not_written(along));
        if along.is_empty() && self.flushes().remove(&id).is_some() {
            self.note_flushed(all.chain([key]));
            return Ok(Outcome::Done);
        }
        // Threads have failed, and newer ones that have begun meanwhile bring all its names.
        if begun && !self.has_to_flush(links, key, along)? {
            return Ok(Outcome::Done);
        }
        self.rank.dataset_event("FLUSH_BEGIN", key, id, |event| event);
        *lock(&self.flushing) = true;
        self.stop_background(id); // it would stage once more, behind this, what gets its name here
        let (parts, publish_if) = (self.files_along(along, key), self.publish_if(key));
        let outcome = flush_with(&links.ctx(&self.site), id, &parts, &left_out, &publish_if);
        *lock(&self.flushing) = false;
        if let Err(error @ Error::Comm(_)) = outcome {
            return Err(error);
        }
        let own = if outcome.is_ok() { Outcome::Done } else { Outcome::Failed };
        let agreed = self.rank.all_agree(links, own)?;
        if agreed == Outcome::Done {
            self.note_flushed(all.chain([key]));
        }
        self.log_flush(key, id, &outcome);
        match (&outcome, self.site.rank) {
            (Err(error), 0) => self.tell_unflushed(key, error),
            (Ok(report), 0) => log::message(
                1,
                format_args!(
                    "{} is on {}: {} files, {} bytes, {:.2} s",
                    self.rank.title(key),
                    self.site.prefix.display(),
                    report.files,
                    report.bytes,
                    report.seconds
                ),
            ),
            _ => {}
        }
        Ok(agreed)
    }

    fn note_flushed<'a>(&self, keys: impl Iterator<Item = &'a DatasetKey>) {
        let mut state = self.node.state();
        for key in keys {
            if let Some(holding) = state.own.holdings.get_mut(key) {
                holding.flushed = true;
            }
        }
    }

    fn not_written(&self, along: &[DatasetKey]) -> Vec<DatasetKey> {
        let ids: Vec<u64> = along.iter().map(|key| self.node.state().machine.id_of(key)).collect();
        let mut flushes = self.flushes();
        let rest = along.iter().zip(ids).filter(|(_, id)| flushes.remove(id).is_none());
        rest.map(|(key, _)| key.clone()).collect()
    }

    fn files_along(&self, along: &[DatasetKey], key: &DatasetKey) -> Vec<Along> {
        let state = self.node.state();
        let id = |key: &DatasetKey| state.machine.id_of(key);
        let parts = state.machine.files_along(along, key).into_iter();
        parts
            .map(|(older, names)| Along { id: id(&older), names: names.into_iter().collect() })
            .collect()
    }

    /// Told once: the reason is likely to be the same for all.
    fn tell_unflushed(&self, key: &DatasetKey, error: &Error) {
        let (title, prefix) = (self.rank.title(key), self.site.prefix.display());
        log::warn_once(
            messages::NOT_FLUSHED,
            format_args!(
                "{title} could not be written to {prefix}: {error}. What cannot be written stays \
                 in the cache, where the next run finds it"
            ),
        );
        log::message(1, format_args!("{title}: {error}"));
    }

    pub(crate) fn log_flush(&self, key: &DatasetKey, id: u64, outcome: &Result<FlushReport>) {
        match outcome {
            Err(error) => {
                let why = error.to_string();
                self.rank.dataset_event("FLUSH_FAILED", key, id, |event| event.note(why));
            }
            Ok(report) => {
                self.rank.dataset_event("FLUSH_END", key, id, |event| {
                    event.seconds(report.seconds).size(report.files, report.bytes)
                });
                self.rank.log_left(&report.left);
            }
        }
    }
}
