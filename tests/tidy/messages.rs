//! What is said to people: each message of the table is said by some code, and nothing is said past
//! the table.

use scr_core::log::messages;

use crate::source::Source;

/// Where lines reach standard error; the commands print with the id that their `tell` takes.
const MOUTHS: [&str; 3] = ["src/core/log/mod.rs", "preload/src/base/message.rs", "src/cli/"];

const TABLE: &str = "src/core/log/messages/";

/// Messages that no code says.
pub fn unsaid(sources: &[Source]) -> Vec<String> {
    let said: Vec<String> = sources
        .iter()
        .filter(|one| one.is_rust() && !one.path.starts_with(TABLE))
        .filter(|one| ["src/", "preload/"].iter().any(|place| one.path.starts_with(place)))
        .map(Source::live)
        .collect();
    let is_said = |name: &str| {
        let used = format!("messages::{name}");
        said.iter().any(|code| {
            let mut places = code.match_indices(&used);
            // Not one whose name only begins so.
            places.any(|(at, _)| {
                !code[at + used.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        })
    };
    let unsaid = messages::all().filter(|one| !is_said(one.name));
    unsaid.map(|one| format!("no code says {} ({})", one.id, one.name)).collect()
}

/// Lines that are printed without a message of the table.
pub fn past_the_table(source: &Source) -> Vec<String> {
    let checked = source.is_rust()
        && ["src/", "preload/"].iter().any(|place| source.path.starts_with(place))
        && !MOUTHS.iter().any(|mouth| source.path.starts_with(mouth));
    if !checked {
        return Vec::new();
    }
    let code = source.live();
    let found = code.lines().enumerate().filter(|(_, line)| {
        ["eprint!", "eprintln!", "stderr()"].iter().any(|way| line.contains(way))
    });
    found.map(|(at, _)| source.complaint(at, "is said without a message's id")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_past_the_table_is_found() {
        let line = |path| past_the_table(&Source::of(path, "fn f() {\n    eprintln!(\"x\");\n}\n"));
        assert_eq!(line("src/core/session/a.rs").len(), 1);
        assert!(line("src/core/log/mod.rs").is_empty() && line("src/cli/a.rs").is_empty());
    }

    #[test]
    fn a_message_that_nobody_says_is_found() {
        let some = Source::of("src/a.rs", "fn f() { warn(messages::NO_ROOM_TO_MOVE, 1) }\n");
        let unsaid = unsaid(&[some]);
        assert!(unsaid.iter().any(|one| one.ends_with("(NO_ROOM)")), "{unsaid:?}");
        assert!(!unsaid.iter().any(|one| one.ends_with("(NO_ROOM_TO_MOVE)")), "{unsaid:?}");
    }
}
