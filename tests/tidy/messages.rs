//! What is said to people: each message of the table is said by some code, and nothing is said past
//! the table.

use scr_core::log::messages;

use crate::source::Source;

/// Where lines reach standard error, each with the id that whoever has it said gives: `warn` of the
/// core and the shim, `tell` of the commands; a bar is no line.
const MOUTHS: [&str; 5] = [
    "src/core/log/mod.rs",
    "preload/src/base/message.rs",
    "src/cli/base/say.rs",
    "src/cli/rescue/after_launch.rs",
    "src/cli/base/progress.rs",
];

/// Who says what is no trouble, and has no id.
const NARRATORS: [&str; 3] =
    ["src/cli/run/drive.rs", "src/cli/prepare/learn.rs", "src/cli/prefix/log.rs"];

const TABLE: &str = "src/abi/messages/";

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
        && !MOUTHS.contains(&&*source.path);
    if !checked {
        return Vec::new();
    }
    let may_narrate = NARRATORS.contains(&&*source.path);
    let code = source.live();
    let found = code.lines().zip(source.text.lines()).enumerate().filter(|(_, (code, text))| {
        ["eprint!", "eprintln!", "stderr()"].iter().any(|way| code.contains(way))
            || (code.contains("narrate(") && !may_narrate)
            || ["\"warning: ", "\"SCR: "].iter().any(|begin| text.contains(begin))
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
        assert_eq!(line("src/cli/a.rs").len(), 1);
        assert!(line("src/core/log/mod.rs").is_empty() && line("src/cli/base/say.rs").is_empty());
        let worded = Source::of("src/cli/a.rs", "fn f() {\n    format!(\"warning: {x}\");\n}\n");
        assert_eq!(past_the_table(&worded).len(), 1);
        let narrated = |path| {
            let code = "fn f() {\n    crate::narrate(\"run\", \"run 2 begins\");\n}\n";
            past_the_table(&Source::of(path, code)).len()
        };
        assert_eq!((narrated("src/cli/index.rs"), narrated("src/cli/prepare/learn.rs")), (1, 0));
    }

    #[test]
    fn a_message_that_nobody_says_is_found() {
        let some = Source::of("src/a.rs", "fn f() { warn(messages::NO_ROOM_TO_MOVE, 1) }\n");
        let unsaid = unsaid(&[some]);
        assert!(unsaid.iter().any(|one| one.ends_with("(NO_ROOM)")), "{unsaid:?}");
        assert!(!unsaid.iter().any(|one| one.ends_with("(NO_ROOM_TO_MOVE)")), "{unsaid:?}");
    }
}
