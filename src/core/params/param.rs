//! What a parameter is: the type of one row of the table.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use super::value::{Kind, Value};

/// One parameter, declared once in the table; help, template and checks all come from here.
#[derive(Debug, PartialEq, Eq)]
pub struct Param {
    /// Full name, as in `SCR_FLUSH`.
    pub name: &'static str,
    /// Heading that it stands under in listings.
    pub section: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// Unit of its value; empty if it has none.
    pub unit: &'static str,
    /// Value in force when nobody sets it, in the file's syntax.
    pub default: Option<&'static str>,
    /// One or two sentences for the user.
    pub meaning: &'static str,
    /// What becomes of a value that somebody sets.
    pub status: ParamStatus,
    /// The permitted words of a [`Kind::Choice`].
    pub choices: &'static [&'static str],
    /// Values that are known and refused, each with the reason.
    pub refused: &'static [(&'static str, &'static str)],
    /// Smallest permitted number.
    pub minimum: Option<i64>,
    /// Largest permitted number of a [`Kind::Float`].
    pub maximum: Option<u32>,
    /// `NAME_2`, `NAME_3`, ... exist too.
    pub family: bool,
    /// The system file's value beats the user's.
    pub system_wins: bool,
}

/// What becomes of a value that somebody sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamStatus {
    /// It counts.
    Works,
    /// Another name of the named parameter.
    Alias(&'static str),
    /// It is reported and ignored, with this reason.
    NoEffect(&'static str),
    /// Only the environment can set it, since it is needed before any file is read.
    EnvironmentOnly,
}

impl Param {
    /// Makes a row without any of the extras.
    #[must_use]
    pub const fn new(
        name: &'static str,
        section: &'static str,
        kind: Kind,
        default: Option<&'static str>,
        unit: &'static str,
        meaning: &'static str,
    ) -> Self {
        Param {
            name,
            section,
            kind,
            unit,
            default,
            meaning,
            status: ParamStatus::Works,
            choices: &[],
            refused: &[],
            minimum: None,
            maximum: None,
            family: false,
            system_wins: false,
        }
    }

    pub(super) const fn status(mut self, status: ParamStatus) -> Self {
        self.status = status;
        self
    }

    pub(super) const fn choices(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }

    pub(super) const fn refused(mut self, values: &'static [(&'static str, &'static str)]) -> Self {
        self.refused = values;
        self
    }

    pub(super) const fn at_least(mut self, minimum: i64) -> Self {
        self.minimum = Some(minimum);
        self
    }

    pub(super) const fn at_most(mut self, maximum: u32) -> Self {
        self.maximum = Some(maximum);
        self
    }

    pub(super) const fn family(mut self) -> Self {
        self.family = true;
        self
    }

    pub(super) const fn system_wins(mut self) -> Self {
        self.system_wins = true;
        self
    }

    /// Reads a value of this parameter; the message says what would be right.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let same = |other: &str| other.eq_ignore_ascii_case(text);
        if let Some((value, reason)) = self.refused.iter().find(|(value, _)| same(value)) {
            return Err(format!("{}={value} is not supported: {reason}", self.name));
        }
        let value = Value::parse(self.kind, text)
            .map_err(|what| format!("{}={text} is wrong: {what}{}", self.name, hint(text)))?;
        if let (Kind::Choice, Value::Text(word)) = (self.kind, &value)
            && !self.choices.contains(&word.as_str())
        {
            let choices = self.choices.join(", ");
            return Err(format!("{}={text} is wrong: one of {choices} is needed", self.name));
        }
        if let (Some(minimum), Some(number)) = (self.minimum, value.as_integer())
            && number < minimum
        {
            return Err(format!("{}={text} is wrong: at least {minimum} is needed", self.name));
        }
        if let (Some(maximum), Value::Float(number)) = (self.maximum, &value)
            && *number > f64::from(maximum)
        {
            return Err(format!("{}={text} is wrong: at most {maximum} is possible", self.name));
        }
        Ok(value)
    }
}

/// A value with a second assignment in it comes from somebody used to a shell.
fn hint(text: &str) -> &'static str {
    if text.split_whitespace().skip(1).any(|word| word.contains('=')) {
        " (one setting a line; only GROUPS, STORE and CKPT lines take several)"
    } else {
        ""
    }
}

/// Marker types that tie a parameter's Rust type to its [`Kind`].
pub trait Typed {
    /// What the getter returns.
    type Output;
    /// The kind in the table.
    const KIND: Kind;
    /// Takes the value out; `None` if it is of another kind, which the table rules out.
    fn take(value: &Value) -> Option<Self::Output>;
}

macro_rules! typed {
    ($($(#[$doc:meta])* $marker:ident => $output:ty, $pattern:pat => $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $marker;

        impl Typed for $marker {
            type Output = $output;
            const KIND: Kind = Kind::$marker;
            fn take(value: &Value) -> Option<$output> {
                match value {
                    $pattern => Some($result),
                    _ => None,
                }
            }
        }
    )*};
}

typed! {
    /// Yes or no.
    Bool => bool, Value::Bool(flag) => *flag;
    /// A number from 0.
    Count => u64, Value::Count(number) => *number;
    /// A number from 0, or yes or no.
    Level => u64, Value::Count(number) => *number;
    /// A number with sign.
    Integer => i64, Value::Integer(number) => *number;
    /// A number with fraction.
    Float => f64, Value::Float(number) => *number;
    /// A time span, in seconds when written plain.
    Seconds => Duration, Value::Duration(span) => *span;
    /// A time span, in milliseconds when written plain.
    Milliseconds => Duration, Value::Duration(span) => *span;
    /// A time span, in microseconds when written plain.
    Microseconds => Duration, Value::Duration(span) => *span;
    /// A number of bytes.
    ByteSize => u64, Value::Bytes(bytes) => *bytes;
    /// Any text.
    Text => String, Value::Text(text) => text.clone();
    /// One of the parameter's words, in upper case.
    Choice => String, Value::Text(text) => text.clone();
    /// An absolute path.
    Path => PathBuf, Value::Path(path) => path.clone();
}

/// Names a parameter that has a default, with its type.
#[derive(Debug)]
pub struct Key<T> {
    /// The row.
    pub param: &'static Param,
    marker: PhantomData<T>,
}

/// Names a parameter without a default, with its type.
#[derive(Debug)]
pub struct OptionalKey<T> {
    /// The row.
    pub param: &'static Param,
    marker: PhantomData<T>,
}

impl<T> Key<T> {
    pub(super) const fn new(param: &'static Param) -> Self {
        Key { param, marker: PhantomData }
    }
}

impl<T> OptionalKey<T> {
    pub(super) const fn new(param: &'static Param) -> Self {
        OptionalKey { param, marker: PhantomData }
    }
}
