//! Values: how each type is read and written.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Types of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `0` or `1`; also `false`, `true`, `no`, `yes`, `off`, `on`.
    Bool,
    /// A whole number from 0.
    Count,
    /// How much of something: a whole number from 0, or `no` (0), `yes` (1) and their like.
    Level,
    /// A whole number.
    Integer,
    /// A finite number.
    Float,
    /// A time span: `90`, `1.5`, `90s`, `15m`, `2h`, `1d`.
    Seconds,
    /// The same; a plain number counts milliseconds.
    Milliseconds,
    /// The same; a plain number counts microseconds.
    Microseconds,
    /// `1048576`, `1MB`, `1MiB`, `1m`: suffixes are powers of 1024, as they always were in SCR.
    ByteSize,
    /// Any text.
    Text,
    /// One of a list of words.
    Choice,
    /// A path; a relative one is below the working directory.
    Path,
}

impl Kind {
    /// Returns the type's name in listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bool => "0 or 1",
            Kind::Count | Kind::Level | Kind::Integer => "number",
            Kind::Float => "decimal",
            Kind::Seconds | Kind::Milliseconds | Kind::Microseconds => "time",
            Kind::ByteSize => "size",
            Kind::Text => "text",
            Kind::Choice => "word",
            Kind::Path => "path",
        }
    }
}

/// A value of some [`Kind`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Count`] and [`Kind::Level`].
    Count(u64),
    /// Of [`Kind::Integer`].
    Integer(i64),
    /// Of [`Kind::Float`].
    Float(f64),
    /// Of the time kinds.
    Duration(Duration),
    /// Of [`Kind::ByteSize`].
    Bytes(u64),
    /// Of [`Kind::Text`] and, in upper case, [`Kind::Choice`].
    Text(String),
    /// Of [`Kind::Path`].
    Path(PathBuf),
}

impl Value {
    /// Reads `text`; the error says what is needed instead.
    pub fn parse(kind: Kind, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let needed = |what: &str| format!("{what} is needed");
        match kind {
            Kind::Bool => parse_bool(text).map(Value::Bool).ok_or_else(|| needed("0 or 1")),
            Kind::Count => {
                text.parse().map(Value::Count).map_err(|_| needed("a whole number from 0"))
            }
            Kind::Level => match (text.parse(), parse_bool(text)) {
                (Ok(level), _) => Ok(Value::Count(level)),
                (Err(_), Some(flag)) => Ok(Value::Count(u64::from(flag))),
                (Err(_), None) => Err(needed("a level from 0, or yes or no")),
            },
            Kind::Integer => text.parse().map(Value::Integer).map_err(|_| needed("a whole number")),
            Kind::Float => match text.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(Value::Float(number)),
                _ => Err(needed("a number from 0")),
            },
            Kind::Seconds => parse_time(text, 1.0).map(Value::Duration),
            Kind::Milliseconds => parse_time(text, 1e-3).map(Value::Duration),
            Kind::Microseconds => parse_time(text, 1e-6).map(Value::Duration),
            Kind::ByteSize => parse_bytes(text).map(Value::Bytes),
            Kind::Text => Ok(Value::Text(text.to_string())),
            Kind::Choice => Ok(Value::Text(text.to_ascii_uppercase())),
            Kind::Path => Ok(Value::Path(PathBuf::from(text))),
        }
    }

    /// Returns the value as a whole number, for bounds; `None` if it is none.
    pub(super) fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Count(number) | Value::Bytes(number) => i64::try_from(*number).ok(),
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Writes the value so that [`Value::parse`] with the same kind gives it back.
    #[must_use]
    pub fn to_text(&self, kind: Kind) -> String {
        match (self, kind) {
            (Value::Duration(span), Kind::Milliseconds) => trim_float(span.as_secs_f64() * 1e3),
            (Value::Duration(span), Kind::Microseconds) => trim_float(span.as_secs_f64() * 1e6),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Value {
    /// Durations in seconds, sizes in bytes.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(flag) => write!(out, "{}", u8::from(*flag)),
            Value::Count(number) | Value::Bytes(number) => write!(out, "{number}"),
            Value::Integer(number) => write!(out, "{number}"),
            Value::Float(number) => write!(out, "{number}"),
            Value::Duration(span) => out.write_str(&trim_float(span.as_secs_f64())),
            Value::Text(text) => out.write_str(text),
            Value::Path(path) => write!(out, "{}", path.display()),
        }
    }
}

/// Microsecond precision, without trailing zeros.
fn trim_float(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "0" | "false" | "no" | "off" => Some(false),
        "1" | "true" | "yes" | "on" => Some(true),
        _ => None,
    }
}

fn split_suffix(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Longest time span that is accepted: about a thousand years.
const SECONDS_MAX: f64 = 3.2e10;

fn parse_time(text: &str, plain_unit_seconds: f64) -> Result<Duration, String> {
    let needed = || "a time is needed, as in 90, 1.5, 30s, 15m, 2h or 1d".to_string();
    let (digits, suffix) = split_suffix(text);
    let number: f64 = digits.parse().map_err(|_| needed())?;
    let unit_seconds = match suffix {
        "" => plain_unit_seconds,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(needed()),
    };
    let seconds = number * unit_seconds;
    if seconds.is_finite() && seconds <= SECONDS_MAX {
        // Whole microseconds, milliseconds in times of weeks, in which a float is not exact enough:
        // a value that is written out and read back is the same.
        Ok(match seconds < 1e6 {
            true => Duration::from_micros((seconds * 1e6).round() as u64),
            false => Duration::from_millis((seconds * 1e3).round() as u64),
        })
    } else {
        Err("that is longer than a thousand years".to_string())
    }
}

/// Reads a size; also used for the keys of STORE lines.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let needed = || "a size is needed, as in 1048576, 64KB, 1.5MB or 2GB".to_string();
    let (digits, suffix) = split_suffix(text);
    let suffix = suffix.to_ascii_lowercase();
    let unit = suffix.strip_suffix("ib").or_else(|| suffix.strip_suffix('b')).unwrap_or(&suffix);
    let shift = match unit {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        "e" => 60,
        _ => return Err(needed()),
    };
    let too_big = || "that is more than 2^64 bytes".to_string();
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(too_big);
    }
    if digits.is_empty() || (digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(if digits.is_empty() { needed() } else { too_big() });
    }
    let number: f64 = digits.parse().map_err(|_| needed())?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(too_big()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [Kind; 12] = [
        Kind::Bool,
        Kind::Count,
        Kind::Level,
        Kind::Integer,
        Kind::Float,
        Kind::Seconds,
        Kind::Milliseconds,
        Kind::Microseconds,
        Kind::ByteSize,
        Kind::Text,
        Kind::Choice,
        Kind::Path,
    ];

    #[test]
    fn sizes_take_binary_suffixes() {
        for (text, bytes) in [
            ("0", 0),
            ("131072", 131_072),
            ("64k", 65_536),
            ("64 KB", 65_536),
            ("1MiB", 1 << 20),
            ("1.5mb", 3 << 19),
            ("15E", 15 << 60),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "-1", "1X", "1.2.3", "16E", "99999999999999999999", "1e3", "1kbb"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_take_units() {
        let seconds = |text| Value::parse(Kind::Seconds, text);
        assert_eq!(seconds("90"), Ok(Value::Duration(Duration::from_secs(90))));
        assert_eq!(seconds("1.5"), Ok(Value::Duration(Duration::from_millis(1500))));
        assert_eq!(seconds("2h"), Ok(Value::Duration(Duration::from_secs(7200))));
        let milliseconds = Value::parse(Kind::Milliseconds, "50");
        assert_eq!(milliseconds, Ok(Value::Duration(Duration::from_millis(50))));
        let long = seconds("637000.222h").unwrap();
        let written = long.to_text(Kind::Seconds);
        assert_eq!(Value::parse(Kind::Seconds, &written), Ok(long));
        for text in ["", "x", "-1", "5 weeks", "1e99", "99999999999999999d", "."] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn flags_and_numbers() {
        assert_eq!(Value::parse(Kind::Bool, "Yes"), Ok(Value::Bool(true)));
        assert_eq!(Value::parse(Kind::Bool, "0"), Ok(Value::Bool(false)));
        assert!(Value::parse(Kind::Bool, "2").is_err());
        assert!(Value::parse(Kind::Count, "-1").is_err());
        for (text, level) in [("2", 2), ("yes", 1), ("On", 1), ("true", 1), ("no", 0), ("off", 0)] {
            assert_eq!(Value::parse(Kind::Level, text), Ok(Value::Count(level)), "{text}");
        }
        for text in ["-1", "verbose", "1.5", ""] {
            assert!(Value::parse(Kind::Level, text).is_err(), "{text}");
        }
        assert_eq!(Value::parse(Kind::Integer, "-1"), Ok(Value::Integer(-1)));
        assert!(Value::parse(Kind::Float, "nan").is_err());
        assert!(Value::parse(Kind::Float, "inf").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn any_text_gives_a_value_or_a_message(text in any::<String>()) {
            for kind in KINDS {
                let _ = Value::parse(kind, &text);
            }
        }

        #[test]
        fn what_is_written_reads_back(text in "[0-9]{1,6}(\\.[0-9]{1,3})?(ms|s|m|h|k|MB)?") {
            for kind in KINDS {
                if let Ok(value) = Value::parse(kind, &text) {
                    prop_assert_eq!(Value::parse(kind, &value.to_text(kind)), Ok(value));
                }
            }
        }
    }
}
