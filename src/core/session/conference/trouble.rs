//! Checkpoints that cannot be completed in the cache, and ranks that cannot use it.

use crate::error::{Error, Result};
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{DatasetKey, Outcome, Reason, SealPlan};
use crate::session::{conference::Conference, rank::lock};
use crate::system::monotonic_ms;

/// Tries to write a file to the PFS before it stays in the cache: the checkpoint depends on it.
const PUBLISH_TRIES: usize = 3;

impl Conference {
    /// Returns the error of a step that all ranks agree has failed, in words.
    pub(crate) fn note_trouble(&self, key: &DatasetKey, error: &Error) -> String {
        let text = error.to_string();
        // The rank that failed has its own error, the others have heard of it.
        let text = match text.starts_with("rank ") {
            true => text,
            false => format!("rank {}: {text}", self.site.rank),
        };
        self.rank.mention(format_args!("{}: {text}", self.rank.title(key)));
        let mut troubles = lock(&self.troubles);
        troubles.by_key.insert(key.clone(), text.clone());
        troubles.last.clone_from(&text);
        text
    }

    /// Heeds that a seal that has failed may have come to the rename of the directory.
    pub(crate) fn find_directory(&self, plan: &SealPlan) {
        let mut state = self.node.state();
        let dir = self.site.layout.dataset_dir(&self.stores.store_for(&state, &plan.key), plan.id);
        if let Some(layer) = state.view.layer_mut(&plan.key)
            && dir.exists()
        {
            layer.dir = dir;
        }
    }

    /// Brings closed files of a dataset that cannot be sealed to the PFS under their names. The
    /// same outcome on all ranks.
    pub(crate) fn spill(
        &self,
        links: &Links,
        key: &DatasetKey,
        files: &[String],
    ) -> Result<Outcome> {
        if let Some(why) = self.find_parted(links, key)? {
            self.node.state().machine.failed(key, &why, monotonic_ms());
            return Ok(Outcome::Failed);
        }
        self.tell_trouble(key, "its files are written there, and the next one is cached again");
        let mut failures = files.iter().filter_map(|name| self.publish_spilled(key, name).err());
        let (first, more) = (failures.next(), failures.count());
        if let Some(error) = &first {
            self.tell_unspilled(key, error, more);
        }
        let own = match (first, self.node.state().machine.has_cached(key)) {
            (None, false) => Outcome::Done,
            (None, true) => Outcome::Touched,
            _ => Outcome::Failed,
        };
        self.rank.all_agree(links, own)
    }

    fn publish_spilled(&self, key: &DatasetKey, name: &str) -> Result<()> {
        let mut state = self.node.state();
        let Some(layer) = state.view.layer(key) else { return Ok(()) };
        let source = layer.dir.join(name);
        // In a store that cannot even say so, it is not gone.
        let gone = source.try_exists().is_ok_and(|there| !there);
        if gone || !state.machine.is_spilled(key, name) {
            return Ok(());
        }
        let (target, reason) = (self.site.on_prefix(name), Reason::Unsealable);
        let publish = || self.rank.publish(&source, &target, reason);
        (1..PUBLISH_TRIES).fold(publish(), |outcome, _| outcome.or_else(|_| publish()))?;
        state.now_on_prefix(key, name, reason);
        Ok(())
    }

    /// Files of this rank are neither protected nor on the PFS. Told once for all.
    fn tell_unspilled(&self, key: &DatasetKey, error: &Error, more: usize) {
        let (rank, title, prefix) =
            (self.site.rank, self.rank.title(key), self.site.prefix.display());
        let others = if more == 0 { String::new() } else { format!(", and {more} more of it") };
        let place = self.node.state().view.layer(key).map(|layer| layer.dir.clone());
        let place = place.unwrap_or_default();
        log::warn_once(
            messages::FILE_NOT_WRITTEN,
            format_args!(
                "rank {rank}: a file of {title} could not be written to {prefix}{others}: {error}; \
                 what cannot is still in {}",
                place.display()
            ),
        );
    }

    /// Drops a dataset that cannot be sealed on the PFS either.
    pub(crate) fn give_up(&self, key: &DatasetKey) {
        self.tell_trouble(key, "its files are there, but not in its index");
        self.rank.dataset_event("DROPPED", key, 0, |event| event.note("it cannot be sealed"));
        self.report.write_given_up(key);
        lock(&self.troubles).by_key.remove(key);
        self.node.state().end_parted(key);
        // Where that fails the next start finds that other ranks have none, or an open one.
        self.rank.mention_if_failed(self.site.filemap.revoke(&self.rank.record_key(key)));
    }

    /// Told once for all: what follows is likely to have the same cause. A cache that all have
    /// given up has been told of.
    fn tell_trouble(&self, key: &DatasetKey, what: &str) {
        let state = self.node.state();
        let (fallen_back, cause) =
            (state.machine.has_fallen_back(), lock(&self.troubles).by_key.get(key).cloned());
        drop(state);
        if let Some(cause) = cause.filter(|_| self.site.rank == 0 && !fallen_back) {
            let (title, prefix) = (self.rank.title(key), self.site.prefix.display());
            let text = format!("{cause}; {title} is protected by {prefix} alone: {what}");
            log::warn_once(messages::NOT_SEALED, text);
        }
    }

    /// Leaves a checkpoint sealed where a node cannot note that it is complete: it goes to
    /// the PFS as well.
    pub(crate) fn heed_unmarked(&self, key: &DatasetKey, marked: Result<()>) -> Result<()> {
        match marked {
            Err(error) if !matches!(error, Error::Comm(_)) => {
                let cause = self.note_trouble(key, &error);
                let (title, prefix) = (self.rank.title(key), self.site.prefix.display());
                let text = format!("{cause}; {title} is complete, and goes to {prefix}, too");
                self.rank.tell_once(messages::NOT_MARKED, text);
                self.node.state().machine.lacks_marker(key);
                Ok(())
            }
            other => other,
        }
    }

    /// Stops the use of the cache, after a conference.
    pub(crate) fn heed_fall_back(&self) {
        let state = self.node.state();
        let (fallen_back, cause) =
            (state.machine.has_fallen_back(), lock(&self.troubles).last.clone());
        drop(state);
        if !fallen_back || !self.stores.stop_routing(&cause) || cause.is_empty() {
            return;
        }
        let prefix = self.site.prefix.display();
        self.rank.tell_once(
            messages::CACHE_GIVEN_UP,
            format_args!(
                "several checkpoints in a row could not be completed in the cache, the last \
                     one since {cause}. From now on all ranks write straight to {prefix}; when \
                     that storage works again, a new launch uses the cache"
            ),
        );
    }
}
