//! First words of comments: that of a function says what the function does.

use crate::source::Source;

/// What is looked at; the tests' own helpers are free.
const ROOMS: [&str; 2] = ["src/", "preload/src/"];

/// Words that may stand between `pub` and `fn`, beside the name of an ABI.
const MODIFIERS: [&str; 4] = ["const", "unsafe", "async", "extern"];

/// Words that end as a verb in the third person does, and are none where a comment begins.
const NO_VERBS: &str = "\
    Addresses Always Arguments As Bytes Checkpoints Datasets Descriptors Directories Events \
    Files Hosts Ids Its Keys Less Lines Members Messages Milliseconds Nodes Numbers Options \
    Others Parts Paths Pieces Points Processes Progress Ranks Redundancy Results Seconds Series \
    Settings Sources Status Steps This Those Threads Thus Times Us Values Words";

/// Finds doc comments of `pub` functions that do not begin with a verb in the third person.
pub fn comments(source: &Source) -> Vec<String> {
    let in_room = ROOMS.iter().any(|room| source.path.starts_with(room));
    if !in_room || !source.is_rust() {
        return Vec::new();
    }
    let lines: Vec<&str> = source.text.lines().collect();
    let mut complaints = Vec::new();
    for (number, first) in lines.iter().enumerate() {
        let goes_on = lines[..number].last().is_some_and(|above| is_comment(above));
        if goes_on || !is_comment(first) || begins_with_verb(first) {
            continue;
        }
        let below = lines[number..].iter().copied().skip_while(|line| is_comment(line));
        if is_public_function(declaration(below)) {
            let what = "the comment of a function begins with a verb, as \"Returns\" or \"Tells\"";
            complaints.push(source.complaint(number, what));
        }
    }
    complaints
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("///")
}

/// Returns the first of `lines` that is no part of an attribute, empty if all are.
fn declaration<'a>(lines: impl Iterator<Item = &'a str>) -> &'a str {
    let mut open = 0_usize;
    for line in lines {
        if open == 0 && !line.trim_start().starts_with("#[") {
            return line;
        }
        open = (open + line.matches('[').count()).saturating_sub(line.matches(']').count());
    }
    ""
}

fn is_public_function(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("pub") else { return false };
    let scoped = rest.strip_prefix('(').and_then(|scope| scope.split_once(')'));
    let rest = scoped.map_or(rest, |(_, rest)| rest);
    let is_modifier = |word: &str| MODIFIERS.contains(&word) || word.starts_with('"');
    rest.split_whitespace().find(|word| !is_modifier(word)) == Some("fn")
}

/// Tells whether the first word has a capital and is a verb in the third person, so far as its end
/// tells.
fn begins_with_verb(comment: &str) -> bool {
    let text = comment.trim_start().trim_start_matches('/').trim_start();
    let word = text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().skip(1).all(|c| c.is_ascii_lowercase())
        && word.ends_with('s')
        && !NO_VERBS.split_whitespace().any(|other| other == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        comments(&Source::of("src/core/a.rs", text)).len()
    }

    #[test]
    fn a_comment_that_begins_with_no_verb_is_found() {
        for start in ["The size", "Whether it is", "`a` of it", "As [`b`]", "Bytes of it", "is"] {
            assert_eq!(found(&format!("/// {start}.\npub fn a() {{}}\n")), 1, "{start}");
        }
        for start in ["Returns the size", "Tells whether it is", "Does what [`b`] does"] {
            assert_eq!(found(&format!("/// {start}.\npub fn a() {{}}\n")), 0, "{start}");
        }
    }

    #[test]
    fn attributes_and_modifiers_may_stand_between() {
        let attributes = "#[must_use]\n    #[allow(\n        dead_code,\n    )]\n";
        let heads = ["pub fn", "pub(super) const fn", "pub(in crate::a) unsafe extern \"C\" fn"];
        for head in heads {
            let text = format!("\n    /// The size.\n    /// More.\n{attributes}    {head} a();");
            let complaints = comments(&Source::of("preload/src/a.rs", &text));
            assert_eq!(complaints.len(), 1, "{head}");
            assert!(complaints[0].starts_with("preload/src/a.rs:2: "), "{complaints:?}");
        }
    }

    #[test]
    fn other_things_may_be_called_by_their_names() {
        assert_eq!(found("/// The size.\npub struct A;\n/// The size.\npub const A: u8 = 1;\n"), 0);
        assert_eq!(found("/// The size.\nfn a() {}\n\npub fn b() {}\n"), 0);
        let public = "/// The size.\npub fn a() {}\n";
        assert!(comments(&Source::of("tests/core/a.rs", public)).is_empty());
        assert!(comments(&Source::of("src/a.md", public)).is_empty());
    }
}
