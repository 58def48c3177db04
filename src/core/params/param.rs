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
    pub(super) const fn new(
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
    type Output;
    const KIND: Kind;
    fn take(value: &Value) -> Option<Self::Output>;
}

macro_rules! typed {
    ($($marker:ident => $output:ty, $pattern:pat => $result:expr;)*) => {$(
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
    Bool => bool, Value::Bool(flag) => *flag;
    Count => u64, Value::Count(number) => *number;
    Level => u64, Value::Count(number) => *number;
    Integer => i64, Value::Integer(number) => *number;
    Float => f64, Value::Float(number) => *number;
    Seconds => Duration, Value::Duration(span) => *span;
    Milliseconds => Duration, Value::Duration(span) => *span;
    Microseconds => Duration, Value::Duration(span) => *span;
    ByteSize => u64, Value::Bytes(bytes) => *bytes;
    Text => String, Value::Text(text) => text.clone();
    Choice => String, Value::Text(text) => text.clone();
    Path => PathBuf, Value::Path(path) => path.clone();
}

/// Names a parameter that has a default, with its type.
#[derive(Debug)]
pub struct Key<T> {
    /// The row.
    pub param: &'static Param,
    marker: PhantomData<T>,
}

#[derive(Debug)]
pub struct OptionalKey<T> {
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
