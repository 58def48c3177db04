//! Times as text, `2011-02-28T12:37:36`, in UTC: the same for every reader, whatever its time zone.
//! What people are shown has a zone ([`super::Zone`]); both are read.

use std::fmt;
use std::str::FromStr;

use crate::system;

/// Last second that has a text of 19 characters: the end of the year 9999.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Seconds since 1970 that are written as date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Returns the time now.
    #[must_use]
    pub fn now() -> Self {
        Self::from_unix_seconds(system::unix_seconds())
    }

    /// Makes a time of seconds since 1970; what lies beyond the year 9999 becomes its end.
    #[must_use]
    pub fn from_unix_seconds(seconds: u64) -> Self {
        Timestamp(seconds.min(SECONDS_MAX))
    }

    /// Returns the seconds since 1970.
    #[must_use]
    pub fn unix_seconds(self) -> u64 {
        self.0
    }

    /// Writes it for programs: `2011-02-28T12:37:36Z`.
    #[must_use]
    pub fn in_utc(self) -> String {
        format!("{self}Z")
    }
}

/// Days of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;

/// Year, month, day of a day since 1970. Years are counted from March on, so that the leap day is
/// the last day of its year and months have fixed starts: (153 m + 2) / 5.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + DAYS_BEFORE_1970;
    let (era, day_of_era) = (day / DAYS_PER_ERA, day % DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day_of_month)
}

/// The inverse of [`civil`], for years from 1970 on.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let march_month = (month + 9) % 12;
    let (era, year_of_era) = (march_year / 400, march_year % 400);
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_1970
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0 / 86_400);
        let (hour, minute, second) = (self.0 / 3600 % 24, self.0 / 60 % 60, self.0 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

impl FromStr for Timestamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| format!("{text:?} is not a time such as 2011-02-28T12:37:36"))
    }
}

/// Whether `text` is as `shape`, in which `d` is a digit.
fn has_shape(text: &str, shape: &str) -> bool {
    let right = |(byte, shape): (u8, u8)| {
        if shape == b'd' { byte.is_ascii_digit() } else { byte == shape }
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(right)
}

/// Seconds that the clocks of a zone are ahead of UTC: nothing, `Z`, `+01:00` or `-03:30`.
fn ahead(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let clock = has_shape(&zone[1..], "dd:dd").then(|| &zone[1..])?;
    let (hours, minutes): (i64, i64) = (clock[..2].parse().ok()?, clock[3..].parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn parse(text: &str) -> Option<Timestamp> {
    const SHAPE: &str = "dddd-dd-ddTdd:dd:dd";
    let (text, zone) = text.split_at_checked(SHAPE.len())?;
    let ahead = ahead(zone)?;
    if !has_shape(text, SHAPE) {
        return None;
    }
    let field = |from: usize, to: usize| text[from..to].parse::<u64>().ok();
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let at = days(year, month, day.max(1));
    let seconds = (at * 86_400 + hour * 3600 + minute * 60 + second).checked_add_signed(-ahead)?;
    // The 30th of February would be another day.
    (civil(at) == (year, month, day)).then(|| Timestamp::from_unix_seconds(seconds))
}

/// Returns the nanoseconds since 1970 of a time of a file; 0 for one before.
#[must_use]
pub fn nanoseconds(seconds: i64, rest: i64) -> u64 {
    let [seconds, rest] = [seconds, rest].map(|one| u64::try_from(one).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_298_896_656, "2011-02-28T12:37:36"),
            (4_107_542_399, "2100-02-28T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (SECONDS_MAX, "9999-12-31T23:59:59"),
            (u64::MAX, "9999-12-31T23:59:59"),
        ] {
            assert_eq!(Timestamp::from_unix_seconds(seconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::from_unix_seconds(seconds)));
        }
    }

    #[test]
    fn every_day_of_400_years_comes_back() {
        for day in 0..146_097 {
            let (year, month, day_of_month) = civil(day);
            assert_eq!(days(year, month, day_of_month), day);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "2011-02-30T00:00:00",
            "2011-13-01T00:00:00",
            "2011-00-01T00:00:00",
            "2011-01-00T00:00:00",
            "1969-12-31T23:59:59",
            "2011-02-28 12:37:36",
            "2011-02-28T24:00:00",
            "+011-02-28T12:37:36",
            "2011-02-28T12:37:3\u{e9}",
            "2011-02-28T12:37:36z",
            "2011-02-28T12:37:36+1:00",
            "2011-02-28T12:37:36+01:60",
            "2011-02-28T12:37:36+24:00",
            "2011-02-28T12:37:36*01:00",
            "2011-02-28T12:37:36+01:00Z",
            "2011-02-28T12:37:36\u{e9}01:0",
            "1970-01-01T00:00:00+00:01",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
