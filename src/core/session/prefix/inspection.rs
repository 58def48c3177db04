//! Whether a checkpoint on the prefix is what it was, and what is told of it.
//! What the program is to read from the prefix is compared in full before it runs: it reads it
//! anyway, and then from its node's memory.

use std::time::Instant;

use super::fetching::Fetching;
use crate::cache::{Offered, RebuildReport};
use crate::error::Result;
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::messages;
use crate::params::keys;
use crate::restart::index::IndexedDataset;
use crate::session::prefix::Inspector;
use crate::transfer::{
    Check, Verified, note_attempt, verify_on_prefix, verify_outdated, verify_sealed_again,
};

impl Inspector {
    pub(crate) fn log_look(
        &self,
        one: &IndexedDataset,
        found: &Verified,
        is_fetch: bool,
        report: &RebuildReport,
        begin: Instant,
    ) {
        self.rank.event(|| {
            let fault = match found.gone {
                true => "its files are gone",
                false => found.fault.as_deref().unwrap_or_default(),
            };
            let fetched = report.offered.iter().any(|cached| cached.id == one.id && cached.fetched);
            let what = if fetched || is_fetch && !fault.is_empty() { "FETCH" } else { "CHECKED" };
            let event = Event::new(what).dataset(one.id, one.key.title()).note(fault);
            event.seconds(begin.elapsed().as_secs_f64())
        });
    }

    /// Tells who `restarts` from a checkpoint that could not be verified in full, and others only
    /// if they want to know.
    pub(crate) fn tell_unverified(&self, one: &IndexedDataset, found: &Verified, restarts: bool) {
        if found.fault.is_some() {
            return; // It is not offered.
        }
        if let Some(remark) = &found.remark {
            let text = format!("{} (dataset {}): {remark}", one.name, one.id);
            match restarts {
                true => self
                    .rank
                    .tell(messages::NOT_CHECKED, format_args!("{text}; it is offered as it is")),
                false => self.rank.mention(text),
            }
        }
        if found.unchecked.files == 0 || !restarts || !self.site.settings.get(keys::CRC_ON_FLUSH) {
            return;
        }
        let text = format!("{} (dataset {}): {}", one.name, one.id, found.unchecked);
        match found.unchecked.touched {
            Some(_) => self.rank.tell(messages::NOT_CHECKED, text),
            None => self.rank.mention(text),
        }
    }

    /// Fetches the checkpoint with `fetches`, if that can be. Collective.
    pub(crate) fn look_at(
        &self,
        links: &Links,
        one: &IndexedDataset,
        restarts: bool,
        fetches: bool,
        report: &mut RebuildReport,
    ) -> Result<Verified> {
        if let Some(found) = self.look_at_spoiled(links, one, report)? {
            return Ok(found);
        }
        let ctx = links.ctx(&self.site);
        let contents = Check::of(&self.site.settings, restarts);
        if restarts {
            self.note_fetch(note_attempt, one.id);
        }
        if !fetches {
            let cached = |it: &&Offered| it.id == one.id && it.is_on_prefix();
            return match report.offered.iter().find(cached) {
                _ if is_outdated(one, report) => verify_outdated(&ctx, one.id, contents),
                Some(cached) => verify_sealed_again(&ctx, one.id, contents, cached),
                None => verify_on_prefix(&ctx, one.id, contents),
            };
        }
        let mut found = verify_on_prefix(&ctx, one.id, Check::Sizes)?;
        if found.anew {
            // A copy of it, or the files of somebody who chooses where to begin.
            found = verify_on_prefix(&ctx, one.id, contents)?;
        }
        if found.gone || found.fault.is_some() {
            return Ok(found);
        }
        match self.fetch(links, one, report)? {
            Fetching::Done => Ok(found),
            Fetching::InPlace => verify_on_prefix(&ctx, one.id, contents),
            Fetching::Fault(fault) => Ok(Verified { fault: Some(fault), ..found }),
        }
    }
}

/// Whether the cache offers a newer checkpoint of its series.
fn is_outdated(one: &IndexedDataset, report: &RebuildReport) -> bool {
    let series = &one.key.series;
    report.offered.iter().any(|cached| cached.id > one.id && cached.key.series == *series)
}
