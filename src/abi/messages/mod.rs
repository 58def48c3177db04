//! Every message that a person can meet, by its cause; `scr explain` and `docs/guide/messages.md`
//! are made of this table. A message has a number, which stays its own for good; the thousands are
//! its subject. What prints takes an [`Id`], and only this table has any.

mod cache;
mod calls;
mod commands;
mod events;
mod launch;
mod message;
mod prefix;
mod restart;
mod run;

pub use cache::*;
pub use calls::*;
pub use commands::*;
pub use events::*;
pub use launch::*;
pub use message::{Id, Message};
pub use prefix::*;
pub use restart::*;
pub use run::*;

/// Each subject: what it is about, and its messages.
pub const SUBJECTS: [(&str, &[Message]); 8] = [
    ("Settings, and the start of a run", launch::ALL),
    ("The cache: node-local storage and the files in it", cache::ALL),
    ("Checkpoints: when they count, and what a restart finds", restart::ALL),
    ("The prefix directory on the parallel file system", prefix::ALL),
    ("Halt, watchdog, and launches that have failed", run::ALL),
    ("Programs that call SCR", calls::ALL),
    ("Commands, and errors that any part may meet", commands::ALL),
    ("The log of events", events::ALL),
];

/// Returns all messages, by their numbers.
pub fn all() -> impl Iterator<Item = &'static Message> {
    SUBJECTS.iter().flat_map(|(_, messages)| messages.iter())
}

/// Returns the message with this number, or none.
#[must_use]
pub fn find(number: u16) -> Option<&'static Message> {
    all().find(|one| one.id.0 == number)
}

impl Id {
    /// Returns the id with this number, if a message has it.
    #[must_use]
    pub fn of_number(number: u16) -> Option<Id> {
        find(number).map(|one| one.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE_MAX: usize = 80;
    const PART_MAX: usize = 360;

    #[test]
    fn each_number_is_of_one_message_and_of_its_subject() {
        let numbers: Vec<u16> = all().map(|one| one.id.0).collect();
        assert!(numbers.len() > 100 && numbers.windows(2).all(|two| two[0] < two[1]));
        for (_, messages) in SUBJECTS {
            let thousands: Vec<u16> = messages.iter().map(|one| one.id.0 / 1000).collect();
            assert!(thousands.windows(2).all(|two| two[0] == two[1]), "{thousands:?}");
        }
        let names: std::collections::BTreeSet<&str> = all().map(|one| one.name).collect();
        assert_eq!(names.len(), numbers.len());
    }

    #[test]
    fn each_message_says_why_what_was_done_and_what_to_do() {
        for one in all() {
            let Message { id, title, cause, done, cure, .. } = one;
            assert!((10..=TITLE_MAX).contains(&title.len()) && !title.ends_with('.'), "{id}");
            for part in [cause, done, cure] {
                let ends = part.ends_with(['.', '!', '?']);
                assert!((8..=PART_MAX).contains(&part.len()) && ends, "{id}: {part}");
                assert!(part.starts_with(|c: char| c.is_ascii_alphabetic()), "{id}: {part}");
            }
        }
    }

    #[test]
    fn the_id_ends_a_line_or_is_where_the_text_has_it() {
        assert_eq!(NO_ROOM.close("no room"), "no room (SCR-2001)");
        assert_eq!(NO_ROOM.close("no room (SCR-2001): rm x"), "no room (SCR-2001): rm x");
        assert_eq!(Id::of_number(2001), Some(NO_ROOM));
        assert_eq!(Id::of_number(2000), None);
    }
}
