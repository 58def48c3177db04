//! The time zone that people read times in. Of the environment that a launch was given, not by
//! libc: what that keeps of a zone is the program's, and so is its lock.

use std::path::PathBuf;
use std::sync::OnceLock;

use jiff::tz::TimeZone;

use super::Timestamp;
use crate::params::Environment;

/// Where zones lie under their names, if `TZDIR` does not say.
const ZONES: &str = "/usr/share/zoneinfo";
/// The zone of this machine.
const OWN: &str = "/etc/localtime";

/// How far clocks on the wall are from UTC. It is read at the first time that is written; one that
/// cannot be read is UTC.
#[derive(Debug, Clone, Default)]
pub struct Zone {
    /// The variable `TZ`; `None`: that of this machine.
    name: Option<String>,
    folder: Option<String>,
    read: OnceLock<Option<TimeZone>>,
}

impl Zone {
    /// Makes the zone that `TZ` of an environment names, as `Europe/Berlin`, `CET-1CEST` or
    /// `:/etc/localtime`; without one, that of this machine.
    #[must_use]
    pub fn new(environment: &Environment) -> Zone {
        let variable = |name| environment.get(name).cloned();
        Zone { name: variable("TZ"), folder: variable("TZDIR"), read: OnceLock::new() }
    }

    /// Writes a time as the clocks of this zone show it, `2011-02-28T13:37:36+01:00`.
    #[must_use]
    pub fn write(&self, time: Timestamp) -> String {
        let seconds = i64::try_from(time.unix_seconds()).unwrap_or(0);
        let zone = self.read.get_or_init(|| self.find()).as_ref();
        let offset = zone.zip(jiff::Timestamp::from_second(seconds).ok());
        // Whole minutes: a zone's time before there was one has seconds, and ISO 8601 has not.
        let minutes = offset.map_or(0, |(zone, at)| i64::from(zone.to_offset(at).seconds() / 60));
        let shown = u64::try_from(seconds + minutes * 60);
        let (minutes, shown) = shown.map_or((0, time.unix_seconds()), |shown| (minutes, shown));
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
        format!("{}{sign}{hours:02}:{rest:02}", Timestamp::from_unix_seconds(shown))
    }

    fn find(&self) -> Option<TimeZone> {
        let Some(name) = self.name.as_deref() else { return of_file(OWN.into()) };
        let name = name.strip_prefix(':').unwrap_or(name);
        if name.is_empty() {
            return None;
        }
        let folder = PathBuf::from(self.folder.as_deref().unwrap_or(ZONES));
        // An absolute path stays one.
        of_file(folder.join(name)).or_else(|| TimeZone::posix(name).ok())
    }
}

fn of_file(path: PathBuf) -> Option<TimeZone> {
    TimeZone::tzif("local", &crate::files::read_optional(&path).ok()??).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(tz: &str, seconds: u64) -> String {
        let environment = [("TZ".to_owned(), tz.to_owned())].into();
        Zone::new(&environment).write(Timestamp::from_unix_seconds(seconds))
    }

    #[test]
    fn times_are_those_of_the_zone_and_come_back() {
        for (zone, seconds, text) in [
            ("Europe/Berlin", 1_298_896_656, "2011-02-28T13:37:36+01:00"),
            (":Europe/Berlin", 1_311_854_256, "2011-07-28T13:57:36+02:00"),
            ("/usr/share/zoneinfo/Asia/Kolkata", 1_298_896_656, "2011-02-28T18:07:36+05:30"),
            ("America/St_Johns", 1_298_896_656, "2011-02-28T09:07:36-03:30"),
            ("XYZ-1ABC,M3.5.0,M10.5.0/3", 1_311_854_256, "2011-07-28T13:57:36+02:00"),
            ("", 1_298_896_656, "2011-02-28T12:37:36+00:00"),
            ("No/Where", 1_298_896_656, "2011-02-28T12:37:36+00:00"),
            ("/etc/passwd", 1_298_896_656, "2011-02-28T12:37:36+00:00"),
            ("America/New_York", 5, "1970-01-01T00:00:05+00:00"),
        ] {
            assert_eq!(write(zone, seconds), text, "{zone}");
            assert_eq!(text.parse(), Ok(Timestamp::from_unix_seconds(seconds)), "{text}");
        }
    }

    #[test]
    fn the_hour_that_comes_twice_keeps_its_order() {
        // On 2026-10-25 the clocks of Berlin went from 03:00 back to 02:00.
        let hour = 1_792_890_000;
        assert_eq!(write("Europe/Berlin", hour - 1), "2026-10-25T02:59:59+02:00");
        assert_eq!(write("Europe/Berlin", hour), "2026-10-25T02:00:00+01:00");
        let read = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(read("2026-10-25T02:59:59+02:00") < read("2026-10-25T02:00:00+01:00"));
    }
}
