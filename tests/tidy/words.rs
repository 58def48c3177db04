//! Words that should not be left behind.

use crate::source::{Source, root};

/// What a person left for later.
fn leftovers() -> Vec<String> {
    // Put together here, so that this file does not find itself.
    let notes = [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")];
    let macros = [("to", "do!"), ("un", "implemented!"), ("db", "g!(")];
    notes.iter().chain(&macros).map(|(start, end)| format!("{start}{end}")).collect()
}

/// Left-over notes and debug output.
pub fn left_over(source: &Source) -> Vec<String> {
    find(source, &leftovers())
}

/// Paths of the machine that the text was written on.
pub fn machine_paths(source: &Source) -> Vec<String> {
    let root = root();
    let home = std::env::var("HOME").unwrap_or_default();
    let mut paths = vec![format!("{}/", root.display())];
    // Root's home is the same everywhere; a person's is not.
    if home.matches('/').count() > 1 {
        paths.push(home);
    }
    find(source, &paths)
}

fn find(source: &Source, words: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        for word in words.iter().filter(|word| contains_word(line, word)) {
            complaints.push(source.complaint(number, &format!("'{word}'")));
        }
    }
    complaints
}

/// True if `word` stands in `line`, not as the middle of another.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let letter = word.starts_with(|c: char| c.is_alphabetic());
        let tail = word.ends_with(|c: char| c.is_alphabetic());
        !(letter && joins(line[..at].chars().next_back())
            || tail && joins(line[at + word.len()..].chars().next()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_found_and_other_words_are_not() {
        let note = ["// TO", "DO: later"].concat();
        assert_eq!(left_over(&Source::of("a.rs", &note)).len(), 1);
        assert!(left_over(&Source::of("a.rs", "mkstemp(nameXXXXXX); MASTODON")).is_empty());
    }

    #[test]
    fn a_path_of_this_machine_is_found() {
        let path = format!("open {}/x", root().display());
        assert_eq!(machine_paths(&Source::of("a.py", &path)).len(), 1);
    }
}
