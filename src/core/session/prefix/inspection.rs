//! Whether a checkpoint on the prefix is what it was, and what is told of it.
//!
//! What the program is to read from the prefix is compared in full before it runs, each rank its
//! own files: it reads them anyway, and then from its node's memory.

use std::time::Instant;

use super::fetching::Fetching;
use crate::cache::RebuildReport;
use crate::error::Result;
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::messages;
use crate::params::{Settings, keys};
use crate::restart::index::Listed;
use crate::session::rank::runtime::Session;
use crate::transfer::{
    Check, Unchecked, Verified, note_attempt, verify_on_prefix, verify_outdated,
};

/// Contents of what the program does not restart from, as the cache has it or a newer one, are read
/// if a rank's share of it is no larger than this.
const CONTENT_BYTES_MAX: u64 = 16 << 20;

impl Session {
    pub(in crate::session) fn log_look(
        &self,
        one: &Listed,
        found: &Verified,
        is_fetch: bool,
        report: &RebuildReport,
        begin: Instant,
    ) {
        self.event(|| {
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

    /// Tells the user what is to be known of a checkpoint that is offered, though all of it was
    /// not, or could not be, verified. Who `restarts` from it is told, others only if they want to
    /// know.
    pub(in crate::session) fn tell_unverified(
        &self,
        one: &Listed,
        found: &Verified,
        restarts: bool,
    ) {
        if found.fault.is_some() {
            return; // It is not offered.
        }
        if let Some(remark) = &found.remark {
            let text = format!("{} (dataset {}): {remark}", one.name, one.id);
            match restarts {
                true => {
                    self.tell(messages::NOT_CHECKED, format_args!("{text}; it is offered as it is"))
                }
                false => self.mention(text),
            }
        }
        if found.unchecked.files == 0 || !restarts || !self.site.settings.get(keys::CRC_ON_FLUSH) {
            return;
        }
        let text = unchecked_in_words(&found.unchecked);
        let text = format!("{} (dataset {}): {text}", one.name, one.id);
        match found.unchecked.touched {
            Some(_) => self.tell(messages::NOT_CHECKED, text),
            None => self.mention(text),
        }
    }

    /// Finds out whether a checkpoint on the prefix, from which the program `restarts` or not, is
    /// what it was; with `fetches` it is in the cache then, if it can be. Collective.
    pub(in crate::session) fn look_at(
        &self,
        links: &Links,
        one: &Listed,
        restarts: bool,
        fetches: bool,
        report: &mut RebuildReport,
    ) -> Result<Verified> {
        if let Some(found) = self.look_at_spoiled(links, one, report)? {
            return Ok(found);
        }
        let ctx = links.ctx(&self.site);
        let contents = check_of(&self.site.settings, restarts);
        if restarts {
            self.note_fetch(note_attempt, one.id);
        }
        if !fetches {
            return match is_outdated(one, report) {
                true => verify_outdated(&ctx, one.id, contents),
                false => verify_on_prefix(&ctx, one.id, contents),
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

/// How thoroughly what is not copied is looked at: in full what the program restarts from. Of the
/// rest whoever sets SCR_CRC_ON_FLUSH=1 himself wants every byte read, however long it takes.
fn check_of(settings: &Settings, restarts: bool) -> Check {
    let wanted = restarts || settings.is_chosen(keys::CRC_ON_FLUSH.param.name);
    match (settings.get(keys::CRC_ON_FLUSH), wanted) {
        (false, _) => Check::Sizes,
        (true, false) => Check::ContentsUpTo(CONTENT_BYTES_MAX),
        (true, true) => Check::Contents,
    }
}

/// Why the contents of some files were not compared.
fn unchecked_in_words(unchecked: &Unchecked) -> String {
    let Unchecked { files, bytes, touched } = unchecked;
    let found = match touched {
        Some(name) => format!("{name} was written to after it was complete, by whom is not known"),
        None => "sizes and times are right".to_string(),
    };
    format!(
        "{files} of its files ({bytes} bytes) have no checksum, since the program wrote them to \
         the prefix itself; {found}"
    )
}

/// Whether the cache offers a newer checkpoint of its series.
fn is_outdated(one: &Listed, report: &RebuildReport) -> bool {
    let series = &one.key.series;
    report.offered.iter().any(|cached| cached.id > one.id && cached.key.series == *series)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::params::{Inputs, load};

    #[test]
    fn contents_are_read_as_far_as_somebody_wants() {
        let check = |value: Option<&str>, restarts| {
            let value = value.map(|value| ("SCR_CRC_ON_FLUSH".to_string(), value.to_string()));
            let inputs = Inputs {
                environment: &value.into_iter().collect(),
                working_directory: Path::new("/nowhere"),
                system_file: Path::new("/nowhere/scr.conf"),
                program: &[],
            };
            check_of(&load(&inputs).unwrap(), restarts)
        };
        assert_eq!(check(None, true), Check::Contents);
        assert_eq!(check(None, false), Check::ContentsUpTo(CONTENT_BYTES_MAX));
        assert_eq!(check(Some("1"), false), Check::Contents);
        assert_eq!([true, false].map(|it| check(Some("0"), it)), [Check::Sizes, Check::Sizes]);
    }

    #[test]
    fn what_has_no_checksum_is_told_of_once_it_was_written_to() {
        let mut unchecked = Unchecked { files: 2, bytes: 90, touched: None };
        assert!(unchecked_in_words(&unchecked).ends_with("sizes and times are right"));
        unchecked.touched = Some("d/a".into());
        let text = unchecked_in_words(&unchecked);
        assert!(text.starts_with("2 of its files (90 bytes) have no checksum"), "{text}");
        assert!(text.contains("d/a was written to after it was complete"), "{text}");
    }
}
