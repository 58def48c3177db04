//! A message, its number, and how a table of messages is written.

use std::fmt;

macro_rules! messages {
    ($($name:ident = $number:literal {
        title: $title:literal, cause: $cause:literal, done: $done:literal, cure: $cure:literal $(,)?
    })*) => {
        $(#[doc = concat!($title, ".")] pub const $name: Id = Id($number);)*
        pub(super) const ALL: &[Message] = &[$(Message {
            id: $name, name: stringify!($name),
            title: $title, cause: $cause, done: $done, cure: $cure,
        }),*];
    };
}

/// The number of a message; displayed as `SCR-2001`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(pub(super) u16);

/// What a person should know of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Its number.
    pub id: Id,
    /// Its name in the code.
    pub name: &'static str,
    /// What happened, in a few words.
    pub title: &'static str,
    /// Why that can be.
    pub cause: &'static str,
    /// What SCR has done about it.
    pub done: &'static str,
    /// What the reader can do.
    pub cure: &'static str,
}

impl Id {
    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns `text` as it is said: with the id in parentheses at its end, unless the text has it
    /// where it is to be, before something that a person copies.
    #[must_use]
    pub fn close(self, text: &str) -> String {
        match text.contains(&self.to_string()) {
            true => text.to_owned(),
            false => format!("{text} ({self})"),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SCR-{}", self.0)
    }
}

pub(super) use messages;
