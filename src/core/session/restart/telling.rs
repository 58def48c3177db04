//! What a restart tells: rank 0, one line for each that is lost, and one for what is offered.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cache::{RebuildReport, Withheld};
use crate::events::Event;
use crate::log::{self, messages};
use crate::params::keys;
use crate::records::DatasetRecord;
use crate::restart::index::{Index, newest_left, newest_vanished, vanished_in_words};
use crate::session::{prefix::hiding::Hidden, restart::Restorer};
use crate::transfer::JournalReport;

impl Restorer {
    pub(crate) fn tell_offers(
        &self,
        report: &RebuildReport,
        known: &Index,
        hidden: &Hidden,
        elapsed: Duration,
    ) {
        for filemap in &report.damaged {
            log::warn(
                messages::FILEMAP_DAMAGED,
                format_args!(
                    "{filemap} is damaged: the files that it names count as lost, and stay there"
                ),
            );
        }
        self.tell_lost(report, known, hidden);
        self.tell_strange(report);
        let chosen = self.site.settings.get_optional(keys::CURRENT).is_some();
        self.repoint_links(report, hidden.in_place.as_ref(), chosen);
        self.tell_former_groups(report);
        self.tell_offered(report, elapsed);
        self.log_offered(report, known);
    }

    /// The last line says where the run goes on if that is from the prefix.
    fn tell_lost(&self, report: &RebuildReport, known: &Index, hidden: &Hidden) {
        // What the program has deleted of one that a newer one has followed is nobody's loss.
        let (lost, past): (Vec<_>, Vec<_>) = known
            .lost(report)
            .partition(|one| !one.spoiled || one.id > newest_left(&one.key.series, report, known));
        self.describe_lost(&past).into_iter().for_each(|line| self.rank.mention(line));
        let mut lines = self.describe_lost(&lost);
        lines.extend(vanished_in_words(report, known));
        let goes_on = !self.site.settings.get(keys::RESTART_REQUIRED);
        let begins = known.listed.iter().find(|one| goes_on && hidden.restart == one.id);
        if let (Some(last), Some(one)) = (lines.last_mut(), begins) {
            let prefix = self.site.prefix.display();
            last.push_str(&format!("; the run goes on from {}, which {prefix} has", one.name));
        }
        lines.iter().for_each(|line| log::warn(messages::LOST, line));
    }

    fn tell_strange(&self, report: &RebuildReport) {
        let Some((newest, key)) = report.strange.last() else { return };
        let title = self.rank.title_of(key).unwrap_or_else(|| key.series.clone());
        log::warn(
            messages::PREFIX_ANEW,
            format_args!(
                "{title} (dataset {newest}) is in the cache and not offered: it was made for the \
                 directory that was {} before, and this one was made anew. A start with \
                 SCR_CACHE_ADOPT=1 begins with it after all; it goes when this run has completed \
                 a checkpoint, or with SCR_CACHE_PURGE=1",
                self.site.prefix.display()
            ),
        );
    }

    fn describe_lost(&self, lost: &[&Withheld]) -> Vec<String> {
        let titles = lost.iter().map(|one| (&*one.reason, self.title_withheld(one)));
        let line =
            |(reason, titles)| format!("{titles} cannot be offered from the cache: {reason}");
        log::by_reason(titles).into_iter().map(line).collect()
    }

    fn title_withheld(&self, withheld: &Withheld) -> String {
        let title = self.rank.title_of(&withheld.key);
        let title = title.unwrap_or_else(|| withheld.key.series.clone());
        format!("{title} (dataset {})", withheld.id)
    }

    fn tell_former_groups(&self, report: &RebuildReport) {
        let records = report.offered.iter().filter_map(|one| self.site.filemap.get_id(one.id));
        let former = |record: DatasetRecord| self.site.descriptors.former_group(&record.descriptor);
        let groups: BTreeSet<String> = records.filter_map(former).collect();
        for group in groups {
            log::warn(
                messages::FORMER_GROUP,
                format_args!(
                    "checkpoints in the cache are protected across GROUP={group}, which no GROUPS \
                     line gives any more: they are across nodes (NODE) from now on"
                ),
            );
        }
    }

    fn tell_offered(&self, report: &RebuildReport, elapsed: Duration) {
        let Some(newest) = report.offered.iter().rfind(|one| !one.fetched) else { return };
        let Some(key) = self.rank.machine_key(&newest.key) else { return };
        let list = |ranks: &[usize]| {
            let texts: Vec<String> = ranks.iter().map(ToString::to_string).collect();
            texts.join(", ")
        };
        let title = self.rank.title(&key);
        let mut text = match newest.is_on_prefix() {
            true => {
                format!("{title} is on {}, and not in the cache", self.site.prefix.display())
            }
            false => format!("{title} is in the cache"),
        };
        let (_, bytes) = newest.catalog.size();
        let past = bytes.saturating_sub(newest.catalog.cached_bytes());
        if past > 0 && !newest.is_on_prefix() {
            text.push_str(&format!(", but for {past} bytes on {}", self.site.prefix.display()));
        }
        if !newest.rebuilt.is_empty() {
            let ranks = list(&newest.rebuilt);
            text.push_str(&format!("; rebuilt by {}: ranks {ranks}", newest.scheme));
        }
        if !newest.moved.is_empty() {
            text.push_str(&format!("; moved from other nodes: ranks {}", list(&newest.moved)));
        }
        log::warn(messages::RESTARTED, format_args!("{text}; {:.2} s", elapsed.as_secs_f64()));
    }

    pub(crate) fn log_journal(&self, report: &JournalReport, known: &Index) {
        let all = [
            (&report.completed, "FLUSH_END", "an earlier launch had it under way"),
            (&report.rolled_back, "FLUSH_FAILED", "an earlier launch had it under way; undone"),
            (&report.gone, "FLUSH_FAILED", "an earlier launch had it under way; not all is there"),
        ];
        for (ids, what, note) in all {
            for id in ids {
                let listed = known.listed.iter().find(|one| one.id == *id);
                let title = listed.map(|one| one.key.title()).unwrap_or_default();
                self.rank.event(|| Event::new(what).dataset(*id, title).note(note));
            }
        }
        self.rank.log_left(&report.left);
    }

    pub(crate) fn log_offered(&self, report: &RebuildReport, known: &Index) {
        for one in &report.offered {
            if !one.rebuilt.is_empty() {
                let note = format!("{}: ranks {:?}", one.scheme, one.rebuilt);
                let event = Event::new("REBUILD").dataset(one.id, one.key.title());
                self.rank.event(|| event.seconds(one.seconds).note(note));
            }
            let note = match (&one.unprotected, one.moved.is_empty()) {
                (Some(why), _) => format!("not protected: {why}"),
                (None, false) => format!("moved from other nodes: ranks {:?}", one.moved),
                (None, true) => String::new(),
            };
            let (files, bytes) = one.catalog.size();
            let event = Event::new("OFFERED").dataset(one.id, one.key.title()).size(files, bytes);
            self.rank.event(|| event.seconds(one.seconds).note(note));
        }
        for one in known.lost(report) {
            let event = Event::new("WITHHELD").dataset(one.id, one.key.title());
            self.rank.event(|| event.note(one.reason.clone()));
        }
        if let Some((id, name)) = newest_vanished(report, known) {
            let event = Event::new("WITHHELD").dataset(id, name);
            self.rank.event(|| event.note("no node of this job has anything of it"));
        }
    }
}
