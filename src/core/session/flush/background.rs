//! Flushes in the background: that which a restart begins, and those of `SCR_FLUSH_ASYNC`.

use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::time::Duration;

use crate::cache::{Catalog, RebuildReport, agree::any, count_files};
use crate::error::{Error, Result};
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{DatasetKey, Outcome};
use crate::params::keys;
use crate::records::DatasetRecord;
use crate::session::{flush::Flusher, rank::lock};
use crate::transfer::{
    Advance, AsyncFlush, Background, BackgroundJob, PublishIf, background_ids, can_resume,
    complete_background, roll_back, settle_background,
};

/// Between two looks at a flush that is waited for.
const WAIT: Duration = Duration::from_millis(2);

/// Number of looks until the ranks tell one another who has failed.
const LOOKS: usize = 50;

impl Flusher {
    /// Logs the end, with `why` if it has failed. Whoever sees it first says it.
    pub(crate) fn flush_ended(&self, id: u64, why: Option<&str>) {
        let begun = self.rank.flushes_begun().remove(&id);
        let Some((key, begun)) = begun else { return };
        let left = self.flushes().get_mut(&id).map(|flush| std::mem::take(&mut flush.left));
        let what = if why.is_none() { "FLUSH_END" } else { "FLUSH_FAILED" };
        self.rank.dataset_event(what, &key, id, |mut event| {
            event.seconds = Some(begun.elapsed().as_secs_f64());
            event.size = self.rank.logs().then(|| self.size_logged(&key)).flatten();
            event.note(why.unwrap_or_default())
        });
        self.rank.log_left(&left.unwrap_or_default());
    }

    fn size_logged(&self, key: &DatasetKey) -> Option<(u64, u64)> {
        let dir = self.node.state().view.layer(key).map(|layer| layer.dir.clone())?;
        let catalog = Catalog::read(&dir).ok().flatten()?;
        Some(count_files(&catalog.entries))
    }

    /// Stops flushes of a dataset whose files are about to go.
    pub(crate) fn stop_background(&self, id: u64) {
        let flush = self.flushes().remove(&id);
        if let Some(flush) = flush {
            flush.stop();
        }
        let mut running = self.background();
        if running.as_ref().is_some_and(|(of, _)| *of == id)
            && let Some((_, background)) = running.take()
        {
            drop(running);
            background.stop();
        }
    }

    /// Enters into the index, on rank 0, what all ranks have published, but not while they write a
    /// dataset together: threads may have done so before, and what they staged of a file of several
    /// nodes has the name of what is staged now and is not whole yet. Local.
    pub(crate) fn tell_published(&self) {
        let flushing = lock(&self.flushing);
        if self.site.rank != 0 || *flushing {
            return;
        }
        let ids = background_ids(&self.site.prefix).unwrap_or_default();
        for id in ids {
            match complete_background(&self.site.prefix, id, self.site.transfer.prefix_size) {
                Ok(Some(left)) => {
                    self.rank.log_wanted(id);
                    self.rank.log_left(&left);
                    self.updates.settle_wanted(id);
                }
                Ok(None) => {}
                Err(error) => {
                    log::warn_once(messages::FLUSH_DELAYED, format_args!("dataset {id}: {error}"));
                }
            }
        }
    }

    /// Enters into the index what all ranks of an earlier launch have published, before anybody
    /// reads it, and removes what no thread goes on with. For rank 0.
    pub(crate) fn settle_background(&self) {
        match settle_background(&self.site.prefix, self.site.transfer.prefix_size) {
            Ok(entered) => entered.into_iter().for_each(|(id, left)| {
                self.rank.log_wanted(id);
                self.rank.log_left(&left);
            }),
            Err(error) => log::message(1, format_args!("{error}")),
        }
    }

    /// Waits for what is under way, on all ranks. Collective.
    pub(crate) fn complete_background(&self, links: &Links) -> Result<()> {
        self.complete_flushes(links, u64::MAX)?;
        let running = self.background().take();
        if let Some((id, background)) = running
            && let Err(error) = background.finish()
        {
            self.rank.complain(messages::FLUSH_DELAYED, format_args!("dataset {id}: {error}"));
        }
        links.world.barrier()?;
        self.tell_published();
        if self.site.rank == 0 {
            self.settle_background(); // nobody goes on with what has failed
        }
        Ok(())
    }

    /// Tells whether a flush need not be waited for yet: the user wants that, or it comes of what
    /// the program keeps. The same on all ranks.
    pub(crate) fn flushes_async(&self, key: &DatasetKey) -> bool {
        let number = self.node.state().machine.number_of(key);
        let store = self.site.descriptors.store(self.stores.descriptor(key.series, number));
        let keeps = self.site.keeps(&self.rank.series.series()[key.series]);
        let wanted = keeps || store.flushes_async(&self.site.settings);
        wanted && !self.rank.is_finishing()
    }

    /// Tells whether a flush by threads waits for rank 0 to commit or record it.
    pub(crate) fn has_pending_flush(&self) -> bool {
        self.flushes().values().any(AsyncFlush::is_pending)
    }

    /// Commits and records what is ready, on rank 0, in order: a newer one replaces only what is
    /// recorded, or the window could not keep it. Local.
    pub(crate) fn advance_flushes(&self) {
        if self.site.rank != 0 {
            return;
        }
        let mut flushes = self.flushes();
        let mut ended = Vec::new();
        for (id, flush) in flushes.iter_mut().filter(|(_, flush)| flush.is_pending()) {
            match flush.advance() {
                Advance::Pending => break,
                Advance::Done => ended.push(*id),
                Advance::Failed(_) => {}
            }
        }
        drop(flushes);
        for id in ended {
            self.flush_ended(id, None);
            self.updates.settle_wanted(id);
        }
    }

    /// Begins a flush by threads, or sees how far it has come; `None`: all ranks flush it together
    /// instead. Collective.
    pub(crate) fn flush_async(
        &self,
        links: &Links,
        key: &DatasetKey,
        id: u64,
    ) -> Result<Option<Outcome>> {
        if !self.flushes().contains_key(&id) {
            return match self.begin_flush(links, key, id) {
                // The machine asks for it again at each conference, until it is done.
                Ok(()) => Ok(Some(Outcome::Touched)),
                Err(error @ Error::Comm(_)) => Err(error),
                Err(error) => {
                    let text = format_args!(": {error}; it is flushed at once");
                    let title = self.rank.title(key);
                    self.rank.tell_once_of(messages::FLUSH_DELAYED, &title, text);
                    Ok(None)
                }
            };
        }
        let waits = self.rank.is_finishing();
        match self.look_at_flush(links, id, waits)? {
            Advance::Pending => Ok(Some(Outcome::Touched)),
            Advance::Done => {
                self.flush_ended(id, None);
                self.flushes().remove(&id);
                if let Some(holding) = self.node.state().own.holdings.get_mut(key) {
                    holding.flushed = true;
                }
                Ok(Some(Outcome::Done))
            }
            Advance::Failed(why) => {
                self.flush_ended(id, Some(&why));
                let prefix = self.site.prefix.display();
                let text = format_args!(
                    " could not be written to {prefix} in the background: {why}; it is tried again"
                );
                self.rank.tell_once_of(messages::FLUSH_DELAYED, &self.rank.title(key), text);
                let flush = self.flushes().remove(&id);
                if let Some(flush) = flush {
                    flush.abandon(&links.ctx(&self.site))?;
                }
                Ok(None)
            }
        }
    }

    /// Waits for the flushes of datasets older than `id`, whose files must not come later.
    /// Collective.
    pub(crate) fn complete_flushes(&self, links: &Links, id: u64) -> Result<()> {
        let older: Vec<u64> = self.flushes().range(..id).map(|(older, _)| *older).collect();
        for older in older {
            let Advance::Failed(why) = self.look_at_flush(links, older, true)? else {
                self.flush_ended(older, None);
                continue;
            };
            self.flush_ended(older, Some(&why));
            self.rank.tell(
                messages::FLUSH_DELAYED,
                format_args!(
                    "dataset {older} could not be written to {} in the background: {why}",
                    self.site.prefix.display()
                ),
            );
            let flush = self.flushes().remove(&older);
            if let Some(flush) = flush {
                flush.abandon(&links.ctx(&self.site))?;
            }
        }
        Ok(())
    }

    /// Tells whether any rank has a file that belongs on the prefix; else the index must not say
    /// that the prefix has the dataset. Collective.
    pub(crate) fn has_to_flush(
        &self,
        links: &Links,
        key: &DatasetKey,
        along: &[DatasetKey],
    ) -> Result<bool> {
        let own = {
            let machine = &self.node.state().machine;
            let mut files = machine.seal_files(key).into_iter();
            let mut older = machine.files_along(along, key).into_iter();
            files.any(|file| !machine.is_left_out(key, &file.name))
                || older.any(|(_, names)| !names.is_empty())
        };
        any(links.world.as_ref(), own)
    }

    pub(crate) fn begin_flush(&self, links: &Links, key: &DatasetKey, id: u64) -> Result<()> {
        let left_out = |name: &str| self.node.state().machine.is_left_out(key, name);
        let host = self.site.host.clone();
        let enter = move || host.enter_thread();
        let publish_if = self.publish_if(key);
        let before = {
            let flushes = self.flushes();
            if !self.site.settings.is_chosen(keys::FLUSH_ASYNC_BW.param.name) {
                // The next one waits already: the places of these are needed soon.
                flushes.values().for_each(AsyncFlush::hurry);
            }
            // Of newer ones it brings no name: they may be under way since before it was due.
            flushes.range(..id).next_back().map(|(_, flush)| flush.under())
        };
        let ctx = links.ctx(&self.site);
        let begun = AsyncFlush::begin(&ctx, id, &left_out, before, enter, publish_if)?;
        self.flushes().insert(id, begun);
        self.rank.flush_begun(key, id);
        // No flush of an older one may come after it, whichever is over first.
        self.node.state().machine.flush_begun(key);
        Ok(())
    }

    /// Refuses files that the program has deleted, or that the prefix has newer.
    pub(crate) fn publish_if(&self, key: &DatasetKey) -> PublishIf {
        let (state, of) = (self.node.state.clone(), key.clone());
        Box::new(move |name, publish| state.publish(&of, name, publish))
    }

    /// What rank 0 knows of a flush; with `waits` not before it is over. Collective.
    fn look_at_flush(&self, links: &Links, id: u64, waits: bool) -> Result<Advance> {
        if waits {
            self.flushes().values().for_each(AsyncFlush::hurry);
        }
        loop {
            let mut found = match self.site.rank {
                0 => self.advance_of(id, if waits { LOOKS } else { 1 }),
                _ => Vec::new(),
            };
            links.world.broadcast(&mut found, 0)?;
            match found.split_first() {
                None if waits => {}
                None => return Ok(Advance::Pending),
                Some((b'+', _)) => return Ok(Advance::Done),
                Some((_, why)) => {
                    return Ok(Advance::Failed(String::from_utf8_lossy(why).into_owned()));
                }
            }
            // Rank 0 would wait for ever for one that could not even write that it has failed; this
            // one comes after the older ones.
            let unheard = self.flushes().range(..=id).any(|(_, flush)| flush.is_unheard());
            if any(links.world.as_ref(), unheard)? {
                return Ok(Advance::Failed("a rank could not write that it failed".into()));
            }
        }
    }

    /// Empty while it is under way, else `+`, or `-` and why it has failed.
    fn advance_of(&self, id: u64, looks: usize) -> Vec<u8> {
        for look in 0..looks {
            if look > 0 {
                std::thread::sleep(WAIT);
            }
            self.advance_flushes();
            let outcome = self.flushes().get(&id).map(AsyncFlush::outcome);
            match outcome.unwrap_or(Advance::Done) {
                Advance::Pending => {}
                Advance::Done => return vec![b'+'],
                Advance::Failed(why) => return [b"-", why.as_bytes()].concat(),
            }
        }
        Vec::new()
    }

    /// Lets flushes of an earlier launch go on where the cache still has the dataset; else what
    /// they left is removed. Collective.
    pub(crate) fn resume_flushes(
        &self,
        links: &Links,
        report: &RebuildReport,
        unfinished: &[u64],
        flushed: &[u64],
    ) -> Result<()> {
        for id in unfinished {
            let ctx = links.ctx(&self.site);
            let offered = report.offered.iter().find(|one| one.id == *id);
            let goes_on = match offered.filter(|_| !flushed.contains(id)) {
                Some(offered) => can_resume(&ctx, *id, offered.epoch)?,
                None => false,
            };
            let key = offered.and_then(|one| self.rank.machine_key(&one.key));
            match key.filter(|_| goes_on) {
                Some(key) => match self.begin_flush(links, &key, *id) {
                    Err(error @ Error::Comm(_)) => return Err(error),
                    Err(error) => self.rank.tell(
                        messages::FLUSH_DELAYED,
                        format_args!("dataset {id}: {error}; flushed later"),
                    ),
                    Ok(()) => {}
                },
                None => roll_back(&ctx, *id)?,
            }
        }
        Ok(())
    }

    /// Writes this rank's files of a sealed dataset, without the other ranks.
    pub(crate) fn begin_background(
        &self,
        record: DatasetRecord,
        key: &DatasetKey,
    ) -> Result<Background> {
        let job = BackgroundJob {
            record,
            rank: self.site.rank,
            world_size: self.site.size,
            prefix: self.site.prefix.clone(),
            width: self.site.transfer.flush_width,
        };
        let host = self.site.host.clone();
        Background::start(job, move || host.enter_thread(), self.publish_if(key))
    }

    pub(crate) fn background(&self) -> MutexGuard<'_, Option<(u64, Background)>> {
        lock(&self.background)
    }

    pub(crate) fn flushes(&self) -> MutexGuard<'_, BTreeMap<u64, AsyncFlush>> {
        lock(&self.flushes)
    }
}
