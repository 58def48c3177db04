//! What the settings ask of a start: datasets that go to the prefix before the program runs, a
//! cache that is dropped, and an end where a complete checkpoint was lost.

use std::collections::BTreeMap;

use crate::cache::agree::agree;
use crate::cache::{self, Offered, RebuildReport};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::params::keys;
use crate::restart::index::Index;
use crate::session::restart::Restorer;
use crate::transfer::{about, flush_sync, kept_by_newer};

impl Restorer {
    /// Obeys `SCR_FLUSH_ON_RESTART`, `SCR_GLOBAL_RESTART`, `SCR_DISTRIBUTE=0`: what the prefix does
    /// not have is written there; then the cache may be dropped. Collective.
    pub(crate) fn arrange(
        &self,
        links: &Links,
        report: &mut RebuildReport,
        known: &mut Index,
    ) -> Result<()> {
        let settings = &self.site.settings;
        let drops = !settings.get(keys::DISTRIBUTE) || settings.get(keys::GLOBAL_RESTART);
        if !drops && !settings.get(keys::FLUSH_ON_RESTART) {
            return Ok(());
        }
        for offered in self.worth_flushing(links, report, known)? {
            let ctx = links.ctx(&self.site);
            let Some(one) = report.offered.iter().find(|one| one.id == offered) else { continue };
            let Some(kept) = kept_by_newer(&ctx, offered, &one.key, known.restorable())? else {
                continue;
            };
            let key = self.rank.machine_key(&one.key);
            if let Some(key) = &key {
                self.rank
                    .dataset_event("FLUSH_BEGIN", key, offered, |event| event.note("at the start"));
            }
            let flushed = flush_sync(&ctx, offered, &|name| kept.contains(name));
            if let Some(key) = &key {
                self.flush.log_flush(key, offered, &flushed);
            }
            match flushed {
                Ok(_) => {
                    known.flushed.push(offered);
                    self.tell_written(report, offered);
                }
                Err(error @ Error::Comm(_)) => return Err(error),
                Err(error) => {
                    self.rank.tell(
                        messages::NOT_FLUSHED,
                        format_args!(
                            "dataset {offered} cannot be written to {}: {error}; the cache stays",
                            self.site.prefix.display()
                        ),
                    );
                    return Ok(());
                }
            }
        }
        if drops {
            agree(links.world.as_ref(), cache::finish(&links.ctx(&self.site)))?;
            self.rank
                .event(|| Event::new("CLEARED").note("the cache: the program reads the prefix"));
            let highest_id = report.highest_id;
            *report = cache::rebuild(&links.ctx(&self.site), &self.rank.identity)?;
            report.highest_id = report.highest_id.max(highest_id);
            let again = Index::read(links.world.as_ref(), &self.site, &self.rank.series, None)?;
            *known = again;
        }
        Ok(())
    }

    fn tell_written(&self, report: &RebuildReport, id: u64) {
        let one = report.offered.iter().find(|one| one.id == id);
        let key = one.and_then(|one| self.rank.machine_key(&one.key));
        if let (0, Some(key)) = (self.site.rank, key) {
            let (title, prefix) = (self.rank.title(&key), self.site.prefix.display());
            log::message(1, format_args!("{title} is written to {prefix} before the program runs"));
        }
    }

    /// Oldest first. Without ids only the newest of a series and those that were due: the others
    /// have its names.
    fn worth_flushing(
        &self,
        links: &Links,
        report: &RebuildReport,
        known: &Index,
    ) -> Result<Vec<u64>> {
        let every = self.site.settings.get(keys::FLUSH);
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        let stays = |one: &&Offered| !self.is_left(known, one.id);
        for one in report.offered.iter().filter(stays) {
            let id = newest.entry(&one.key.series).or_default();
            *id = one.id.max(*id);
        }
        let numbers = self.numbers(links, report)?;
        let wanted = |(one, (number, output, _)): (&Offered, (u64, bool, bool))| {
            let output = output
                || self.rank.machine_key(&one.key).is_some_and(|key| self.is_output(key.series));
            let due = output || (every > 0 && number > 0 && number.is_multiple_of(every));
            let is_newest = newest.get(one.key.series.as_str()) == Some(&one.id);
            let there = known.flushed.contains(&one.id) || one.is_on_prefix();
            let wanted = due || is_newest || !one.key.id.is_empty();
            (wanted && !there && stays(&one)).then_some(one.id)
        };
        Ok(report.offered.iter().zip(numbers).filter_map(wanted).collect())
    }

    fn is_output(&self, series: usize) -> bool {
        self.rank.series.series().get(series).is_some_and(|series| series.output)
    }

    /// Obeys `SCR_RESTART_REQUIRED`: better no run than one that begins from an older state.
    pub(crate) fn require_restart(&self, links: &Links, lost: Option<String>) -> Result<()> {
        let Some(lost) = lost.filter(|_| self.site.settings.get(keys::RESTART_REQUIRED)) else {
            return Ok(());
        };
        self.rank.tell(messages::RESTART_REQUIRED, format_args!(
            "SCR_RESTART_REQUIRED=1: the run ends before it computes, since {lost} cannot be had \
             again; without the setting it would go on from what is left"
        ));
        let note = format!("SCR_RESTART_REQUIRED=1: {lost} cannot be had again");
        self.rank.event(|| Event::new("HALT").note(note));
        self.flush.end_run("EXIT");
        self.rank.end_log("EXIT");
        links.world.barrier()?;
        self.site.host.end_process(1)
    }

    /// Returns the number of each offered dataset in its series, whether it is output, and whether
    /// the prefix has the last word on files of it. Collective.
    pub(crate) fn numbers(
        &self,
        links: &Links,
        report: &RebuildReport,
    ) -> Result<Vec<(u64, bool, bool)>> {
        let own = |offered: &Offered| {
            let record = self.site.filemap.get_id(offered.id);
            let tag = |name: &str| {
                let tags = record.as_ref().map(|record| &record.tags);
                tags.and_then(|tags| tags.get(name)?.parse::<i64>().ok()).unwrap_or(0)
            };
            let left = i64::from(!(offered.left.is_empty() && offered.gone.is_empty()));
            [tag(about::TAG_CHECKPOINT), tag(about::TAG_OUTPUT), left]
        };
        let mut words: Vec<i64> = report.offered.iter().flat_map(own).collect();
        if !words.is_empty() {
            links.world.all_max(&mut words)?;
        }
        let told = |words: &[i64]| (words[0].max(0) as u64, words[1] > 0, words[2] > 0);
        Ok(words.chunks(3).map(told).collect())
    }
}
