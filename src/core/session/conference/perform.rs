//! What a conference has decided, done by all ranks in the same order.
//!
//! A failure of a file operation is a vote, never a reason to leave: the other ranks count on us in
//! the next call. Only failed communication ends it.

use std::cell::Cell;
use std::time::Instant;

use crate::cache::agree::{any, twice};
use crate::cache::{self, Prepared};
use crate::error::{Error, Result};
use crate::events::SEALED_ON_PREFIX;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{DatasetKey, Outcome, Reason, SealPlan, SharedDataset, Step};
use crate::namespace as ns;
use crate::session::{conference::Conference, node::State, rank::lock};
use crate::system::{Planted, monotonic_ms, planted};
use crate::transfer::flush_sync;

impl Conference {
    /// Returns what is equal on all ranks where the step communicates.
    pub(crate) fn perform(&self, links: &Links, step: &Step) -> Result<Outcome> {
        match step {
            Step::Adopt { from, into, files, begin, revoke } => {
                self.adopt(from, into, files, *begin, *revoke);
            }
            Step::Encode(plan) => return self.encode(links, plan),
            Step::Discard { key, .. } => self.discard(key),
            Step::Seal(plan) => {
                let outcome = self.seal(links, step, plan)?;
                self.rank.tally.sealed(plan, outcome);
                return Ok(outcome);
            }
            Step::Confirm { key, id } => return self.confirm(links, step, key, *id),
            Step::Trust { key, id } => self.trust(links, key, *id),
            Step::Drop { key, rank, reason, .. } => {
                self.drop_dataset(links, key, *rank, reason)?;
            }
            Step::PublishDeletions { files, .. } => {
                files.iter().for_each(|name| self.publish_deletion(name));
                self.contents.remove_empty_dirs();
            }
            Step::Flush { key, id, along } => return self.flush.flush(links, key, *id, along),
            Step::Evict { key, id } => self.evict(links, key, *id)?,
            Step::Learned { .. } => self.updates.store_knowledge(links)?,
            Step::Spill { key, files } => return self.spill(links, key, files),
            Step::GiveUp { key } => self.give_up(key),
            // Told by `confer`; whoever asked for the conference ends the run.
            Step::Halt { .. } => {}
        }
        Ok(Outcome::Done)
    }

    fn seal(&self, links: &Links, step: &Step, plan: &SealPlan) -> Result<Outcome> {
        let (begin, begin_ms) = (Instant::now(), monotonic_ms());
        if planted(Planted::EvictEarly) {
            let all = self.node.state().machine.datasets(plan.key.series).to_vec();
            let older = all.iter().filter(|one| one.id != 0 && one.id < plan.id);
            older.for_each(|one| drop(self.evict(links, &one.key, one.id)));
        }
        let written_ms = self.node.state().machine.touched_ms(&plan.key);
        let sealed = self.try_seal(links, step, plan);
        self.unsealed.pulls.go_on();
        match sealed {
            Ok(prepared) => {
                let mut state = self.node.state();
                state.show_sealed(&plan.key, &prepared);
                lock(&self.troubles).by_key.remove(&plan.key);
                drop(state);
                let title = self.rank.title(&plan.key);
                self.rank.mention(format_args!("{title} is sealed as dataset {}", plan.id));
                let own = prepared.files.iter().filter(|file| !file.on_prefix);
                self.rank.tally.sealed.note(own.map(|file| file.size).sum(), prepared.own_time);
                let (files, bytes) = prepared.catalog.size();
                let seconds = begin.elapsed().as_secs_f64();
                self.rank.dataset_event("SEALED", &plan.key, plan.id, |event| {
                    let note = match bytes - prepared.catalog.cached_bytes() {
                        _ if plan.on_prefix => SEALED_ON_PREFIX.to_owned(),
                        0 => String::new(),
                        past => format!("{SEALED_ON_PREFIX}: {past} bytes"),
                    };
                    event.seconds(seconds).size(files, bytes).note(note)
                });
                if !plan.on_prefix {
                    self.exposure_ended(&plan.key, plan.id);
                }
                self.report.write_ended(&plan.key, plan.id, written_ms, seconds);
                if self.rank.series.series()[plan.key.series].checkpoint && !plan.resealed {
                    let begun = self.node.state().machine.begun_ms(&plan.key);
                    lock(&self.need).checkpoint(begun.unwrap_or(begin_ms), monotonic_ms());
                }
                self.stores.tell_setback(links, &self.rank.title(&plan.key), &prepared.catalog)?;
                if plan.confirmed {
                    self.completed(links, &plan.key, plan.id, plan.on_prefix)?;
                }
                Ok(Outcome::Done)
            }
            Err(error @ Error::Comm(_)) => Err(error),
            Err(error) => {
                self.find_directory(plan);
                let why = self.note_trouble(&plan.key, &error);
                self.rank.dataset_event("VOIDED", &plan.key, plan.id, |event| event.note(why));
                // A rank that hears of another's touch has an error of its own kind.
                let own = self.node.state().machine.is_touched(&plan.key);
                let touched = any(links.world.as_ref(), own)?;
                Ok(if touched { Outcome::Touched } else { Outcome::Failed })
            }
        }
    }

    /// Notes that the dataset, sealed as `id`, was not protected from its last close on rank 0
    /// until now: a failure in between would have taken it.
    fn exposure_ended(&self, key: &DatasetKey, id: u64) {
        let since = self.node.state().machine.changed_ms(key);
        if let Some(since) = since {
            let seconds = monotonic_ms().saturating_sub(since) as f64 / 1e3;
            self.rank.dataset_event("EXPOSED", key, id, |event| event.seconds(seconds));
        }
    }

    fn try_seal(&self, links: &Links, step: &Step, plan: &SealPlan) -> Result<Prepared> {
        let (asked, encoded) = self.take_encoded(links, plan)?;
        let ctx = links.ctx(&self.site);
        let key = asked.key.clone();
        // Called to write the record, and last of all for the vote.
        let recorded = Cell::new(false);
        let if_untouched = |action: &mut dyn FnMut() -> Result<()>| {
            let mut state = self.node.state();
            let quiet = match recorded.replace(true) {
                false => state.machine.seal_record(&plan.key),
                true => state.machine.vote(step, Outcome::Done) == Outcome::Done,
            };
            if quiet {
                // With the lock held: a touch that waits for it will find the record.
                action()?;
            }
            Ok(quiet)
        };
        let prepared = cache::prepare(&ctx, asked.request(plan), encoded, &if_untouched)?;
        if let Err(error) = self.check_writers(&ctx, &plan.key, &prepared) {
            let _ = ctx.filemap.revoke(&key);
            return Err(error);
        }
        self.commit(&ctx, plan, prepared)
    }

    /// All ranks are prepared: a restart counts the dataset, whatever fails from here on. To seal
    /// it anew where a node takes no record any more would lose it.
    fn commit(
        &self,
        ctx: &cache::Ctx,
        plan: &SealPlan,
        mut prepared: Prepared,
    ) -> Result<Prepared> {
        let committed = twice(|| cache::commit(ctx, &prepared, plan.confirmed));
        self.heed_unmarked(&plan.key, committed)?;
        if prepared.dir.exists() && !prepared.sealed_dir.exists() {
            prepared.sealed_dir.clone_from(&prepared.dir);
        }
        Ok(prepared)
    }

    fn confirm(&self, links: &Links, step: &Step, key: &DatasetKey, id: u64) -> Result<Outcome> {
        let vote = self.node.state().machine.vote(step, Outcome::Done);
        let outcome = self.rank.all_agree(links, vote)?;
        if outcome != Outcome::Done {
            return Ok(outcome);
        }
        let ctx = links.ctx(&self.site);
        self.heed_unmarked(key, twice(|| cache::confirm(&ctx, id)))?;
        let on_prefix = |one: &SharedDataset| one.key == *key && one.on_prefix;
        let on_prefix = self.node.state().machine.datasets(key.series).iter().any(on_prefix);
        self.completed(links, key, id, on_prefix)?;
        Ok(Outcome::Done)
    }

    /// The program has left the dataset alone for long: a restart may offer it.
    fn trust(&self, links: &Links, key: &DatasetKey, id: u64) {
        let (rank, title) = (self.site.rank, self.rank.title(key));
        match cache::trust(&links.ctx(&self.site), id) {
            Ok(()) if rank > 0 => {}
            Ok(()) => log::message(
                1,
                format_args!(
                    "{title} was left alone for longer than it took: it counts if a node is lost"
                ),
            ),
            Err(error) => log::message(1, format_args!("rank {rank}: {title}: {error}")),
        }
        self.rank.dataset_event("TRUSTED", key, id, |event| event);
    }

    fn completed(&self, links: &Links, key: &DatasetKey, id: u64, on_prefix: bool) -> Result<()> {
        self.rank.dataset_event("CONFIRMED", key, id, |event| event);
        if on_prefix {
            self.enter_index(links, key, id)?;
        }
        self.halt.check(self.rank.series.series()[key.series].checkpoint);
        Ok(())
    }

    /// Lets index and summary learn of files that the program itself has put on the PFS, so that a
    /// restart knows them. Nothing is copied; a failure leaves the dataset out of the index.
    fn enter_index(&self, links: &Links, key: &DatasetKey, id: u64) -> Result<()> {
        match flush_sync(&links.ctx(&self.site), id, &|_| false) {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(error) if self.site.rank == 0 => {
                let (title, prefix) = (self.rank.title(key), self.site.prefix.display());
                let text = format!("{title} is on {prefix}, but not in its index: {error}");
                log::warn_once(messages::INDEX_NOT_UPDATED, text);
            }
            _ => {}
        }
        Ok(())
    }

    fn drop_dataset(
        &self,
        links: &Links,
        key: &DatasetKey,
        rank: usize,
        reason: &str,
    ) -> Result<()> {
        let parted = self.find_parted(links, key)?.filter(|why| why != reason);
        let reason = parted.map_or(reason.to_string(), |why| format!("{reason}; {why}"));
        self.rank.tell(
            messages::CHECKPOINT_INVALID,
            format_args!(
                "rank {rank}: {reason}: {} is not valid and is given up",
                self.rank.title(key)
            ),
        );
        let note = format!("rank {rank}: {reason}");
        self.rank.dataset_event("DROPPED", key, 0, |event| event.note(note));
        self.report.write_given_up(key);
        self.node.state().end_parted(key);
        self.rank.mention_if_failed(self.site.filemap.revoke(&self.rank.record_key(key)));
        Ok(())
    }

    fn publish_deletion(&self, name: &str) {
        let mut state = self.node.state();
        if !state.view.is_deleted(name) {
            return;
        }
        match self.contents.remove_deleted(&mut state, name) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                self.rank.complain(messages::DELETION_FAILED, &error);
            }
        }
        // A cached copy stays hidden until its dataset is evicted.
        let cached = state.view.layers().iter().any(|layer| layer.dir.join(name).exists());
        if !cached {
            state.view.settle(name);
        }
    }

    fn adopt(
        &self,
        from: &DatasetKey,
        into: &DatasetKey,
        files: &[String],
        begin: bool,
        revoke: bool,
    ) {
        let mut state = self.node.state();
        let begun = self.stores.record_begin(&mut state, into, begin, revoke);
        for name in files {
            if let Err(error) = self.adopt_file(&mut state, from, into, name) {
                // Without it `into` is not whole.
                let text = format!("{name} could not be moved to it: {error}");
                state.machine.failed(from, &text, monotonic_ms());
            }
        }
        self.report.write_given_up(from);
        let moved = begun.and_then(|()| {
            state.view.remove(from);
            if from.id.is_empty() {
                // Those of other ranks of the node, which they have adopted as well.
                let State { view, own, .. } = &mut *state;
                view.remove_floating(from.series, |key| {
                    own.holdings.contains_key(key) && key != from
                });
            }
            match state.own.holdings.remove(from) {
                Some(_) => self.site.filemap.remove(&self.rank.record_key(from)),
                None => Ok(()),
            }
        });
        if let Err(error) = moved {
            drop(state);
            self.stores.give_up_routing(&error.to_string());
        }
    }

    fn adopt_file(
        &self,
        state: &mut State,
        from: &DatasetKey,
        into: &DatasetKey,
        name: &str,
    ) -> Result<()> {
        let mut on_prefix = state.machine.lies_on_prefix(from, name).unwrap_or(true);
        if let (false, Some(old), Some(new)) =
            (on_prefix, state.view.layer(from), state.view.layer(into))
        {
            let (old, target) = (old.dir.join(name), new.dir.join(name));
            let open = state.own.tokens.count(name) > 0;
            let moved = ns::make_parents(&new.dir, name)
                .and_then(|()| ns::move_to_unless(open, &old, &target));
            if let Err(error) = moved {
                if open {
                    return Err(error);
                }
                let (target, reason) = (self.site.on_prefix(name), Reason::StoreFailed);
                self.rank.publish(&old, &target, reason)?;
                self.stores.set_back(state, from, name, &error);
                on_prefix = true;
            }
        }
        state.leave_file(from, name);
        state.enter_file(into, name, on_prefix);
        state.own.tokens.rename(name, name, into);
        Ok(())
    }
}
