//! Events as they are read again, from the text log or the database.

use std::collections::BTreeMap;

use crate::records::Timestamp;

pub(super) const KEYS: [&str; 12] = [
    "user", "jobid", "jobname", "cluster", "host", "event", "dset", "name", "secs", "files",
    "bytes", "note",
];

/// An event that is read again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logged {
    /// As `2011-02-28T12:37:36`, UTC.
    pub time: String,
    /// By the key that a line of the text log has.
    pub fields: BTreeMap<&'static str, String>,
}

impl Logged {
    /// Returns the value of `key`, empty if the event has none.
    pub fn get(&self, key: &str) -> &str {
        self.fields.get(key).map_or("", String::as_str)
    }

    /// Returns a line of the text log, but for the zone of the time.
    pub fn line(&self) -> String {
        let field = |key: &&&str| {
            let value = self.fields.get(**key)?;
            Some(if is_quoted(key) {
                format!("{key}=\"{value}\"")
            } else {
                format!("{key}={value}")
            })
        };
        let fields: Vec<String> = KEYS.iter().filter_map(|key| field(&key)).collect();
        format!("{}: {}", self.time, fields.join(", "))
    }
}

/// Which events are wanted; what is `None` does not matter.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// What happened, in any case.
    pub event: Option<String>,
    /// Id of the dataset.
    pub dataset: Option<u64>,
    /// Id of the job.
    pub job: Option<String>,
    /// Not before this time, as [`Logged::time`] or the beginning of it.
    pub since: Option<String>,
}

impl Filter {
    pub(crate) fn takes(&self, one: &Logged) -> bool {
        let is = |key: &str, wanted: &str| one.get(key).eq_ignore_ascii_case(wanted);
        self.event.as_ref().is_none_or(|event| is("event", event))
            && self.dataset.is_none_or(|id| one.get("dset") == id.to_string())
            && self.job.as_ref().is_none_or(|job| one.get("jobid") == job)
            && self.since.as_ref().is_none_or(|since| one.time >= *since)
    }
}

fn is_quoted(key: &str) -> bool {
    matches!(key, "name" | "note")
}

/// Reads a line of the text log, in which a time without a zone is UTC.
pub fn parse_line(line: &str) -> Option<Logged> {
    let (time, mut rest) = line.split_once(": ")?;
    let time = time.parse::<Timestamp>().ok()?.to_string();
    let mut one = Logged { time, ..Logged::default() };
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let at = KEYS.iter().position(|key| *key == name)?;
        let value;
        (value, rest) = split_value(after, at)?;
        one.fields.insert(KEYS[at], value.to_owned());
    }
    one.fields.contains_key("event").then_some(one)
}

/// The value that `text` begins with, and the rest. It may have commas and quotes in it, so it ends
/// where a later key begins.
fn split_value(text: &str, at: usize) -> Option<(&str, &str)> {
    let later = &KEYS[at + 1..];
    let begins = |rest: &str| {
        later.iter().any(|key| rest.strip_prefix(key).is_some_and(|rest| rest.starts_with('=')))
    };
    let ends = text.match_indices(", ").find(|(end, _)| begins(&text[end + 2..]));
    let (value, rest) = match ends {
        Some((end, _)) => (&text[..end], &text[end + 2..]),
        None => (text, ""),
    };
    match is_quoted(KEYS[at]) {
        true => Some((value.strip_prefix('"')?.strip_suffix('"')?, rest)),
        false => Some((value, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Event, LoggedJob};

    #[test]
    fn a_line_that_was_written_is_read_again() {
        let user = "me, you".to_owned();
        let job = LoggedJob { user, job_id: "7".into(), host: "n1".into(), ..LoggedJob::default() };
        let event = Event::new("FLUSH_END").dataset(3, "a \"b\", c").seconds(1.5).size(2, 9);
        let line = format!("{}: {}", event.when(), event.clone().note("x=1, y").line(&job));
        let read = parse_line(&line).unwrap();
        for (key, value) in [
            ("user", "me, you"),
            ("jobid", "7"),
            ("event", "FLUSH_END"),
            ("dset", "3"),
            ("name", "a \"b\", c"),
            ("secs", "1.500000"),
            ("bytes", "9"),
            ("note", "x=1, y"),
        ] {
            assert_eq!(read.get(key), value, "{key}");
        }
        assert_eq!(read.line(), line);
    }

    #[test]
    fn a_time_of_any_zone_is_read() {
        let event = "user=me, event=START";
        for time in
            ["2011-02-28T12:37:36", "2011-02-28T18:07:36+05:30", "2011-02-28T09:07:36-03:30"]
        {
            let read = parse_line(&format!("{time}: {event}")).unwrap();
            assert_eq!(read.line(), format!("2011-02-28T12:37:36: {event}"));
        }
    }

    #[test]
    fn other_lines_are_no_events() {
        let cut = "2011-02-28T12:37:36: user=me, event=A, note=\"cut of";
        let none = "2011-02-28T12:37:36: user=me, jobid=3";
        for line in ["", "x: y", cut, none, "2011-02-28 12:37:36: event=A", "\u{e9}: event=A"] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_filter_takes_what_fits_all_of_it() {
        let one = parse_line("2011-02-28T12:37:36: jobid=4, event=CHECKED, dset=3").unwrap();
        let with = |change: fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter.takes(&one)
        };
        assert!(with(|_| ()) && with(|f| f.event = Some("checked".into())));
        assert!(with(|f| f.since = Some("2011-02".into())) && with(|f| f.dataset = Some(3)));
        assert!(!with(|f| f.since = Some("2011-03".into())) && !with(|f| f.dataset = Some(4)));
        assert!(!with(|f| f.job = Some("5".into())) && !with(|f| f.event = Some("X".into())));
    }
}
