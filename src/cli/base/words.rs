//! Values as people and programs read them: times, durations, rates, tables.

use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanBytes;
use jiff::tz::TimeZone;
use scr_core::records::Timestamp;

/// Writes a time, seconds since 1970, in this machine's time zone.
pub fn show(seconds: u64) -> String {
    let moment = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    let text = |moment: jiff::Timestamp| {
        moment.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
    };
    moment.map_or_else(|| seconds.to_string(), text)
}

/// Writes a time, seconds since 1970, as ISO 8601 in UTC.
pub fn iso(seconds: u64) -> String {
    Timestamp::from_unix_seconds(seconds).in_utc()
}

pub fn lasted(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

pub fn took(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!("{seconds:.2} s"))
}

/// Returns the bytes in a second; `None` if the time is too short to tell.
pub fn rate(bytes: u64, seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| *seconds > 0.0 && bytes > 0).map(|seconds| bytes as f64 / seconds)
}

/// Writes a rate as `1.20 GiB/s`; nothing if it is not known.
pub fn speed(bytes: u64, seconds: Option<f64>) -> String {
    let rate = rate(bytes, seconds);
    rate.map(|rate| format!("{}/s", HumanBytes(rate as u64))).unwrap_or_default()
}

/// Writes a number of things: `1 run`, `2 runs`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Makes an empty table without lines, whose columns from `words` on are numbers.
pub fn table(headers: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headers.iter().copied());
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_units_that_fit() {
        for (seconds, text) in
            [(0.0, "0 s"), (0.25, "250 ms"), (2.5, "2.5 s"), (600.0, "10 min"), (7200.0, "2.0 h")]
        {
            assert_eq!(lasted(seconds), text);
        }
        assert_eq!((rate(10, Some(2.0)), rate(10, Some(0.0))), (Some(5.0), None));
    }
}
