//! What the documents say of the tree is so.

use std::collections::BTreeSet;

use crate::source::Source;

/// Lines of the README: more and nobody reads it; the rest has its place in `docs/`.
const README_LINES_MAX: usize = 100;

/// A README that has grown too long.
pub fn readme(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if source.path != "README.md" || lines <= README_LINES_MAX {
        return Vec::new();
    }
    vec![source.complaint(lines - 1, &format!("more than {README_LINES_MAX} lines"))]
}

/// Where the last column of the tables names tests.
const WITH_TESTS: [&str; 2] = ["docs/limits.md", "docs/api_manual.md"];

/// Names of tests in the last column of the tables of [`WITH_TESTS`] that no test has.
pub fn tests_named(sources: &[Source]) -> Vec<String> {
    let tests = || sources.iter().filter(|source| source.path.starts_with("tests/"));
    let known: BTreeSet<&str> = tests().flat_map(|source| names_defined(&source.text)).collect();
    let pages = sources.iter().filter(|source| WITH_TESTS.contains(&source.path.as_str()));
    let mut complaints = Vec::new();
    for page in pages {
        for (number, line) in page.text.lines().enumerate() {
            // There the column has nothing but names.
            let all = page.path == WITH_TESTS[1];
            for name in names_in_last_column(line, all).filter(|name| !known.contains(name)) {
                complaints.push(page.complaint(number, &format!("no test is called {name}")));
            }
        }
    }
    complaints
}

/// Functions that a file of tests defines, and its own name.
fn names_defined(text: &str) -> impl Iterator<Item = &str> {
    let defined = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix("def ").or_else(|| line.strip_prefix("fn ")).map(str::len)
    };
    text.lines().filter_map(move |line| {
        let rest = &line[line.len() - defined(line)?..];
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
    })
}

/// Words in backquotes that can be a test's name: those with an underscore, or `all`.
fn names_in_last_column(line: &str, all: bool) -> impl Iterator<Item = &str> {
    let row = line.strip_prefix('|').and_then(|row| row.trim_end().strip_suffix('|'));
    let last = row.and_then(|row| row.rsplit(" | ").next()).unwrap_or_default();
    let is_name = move |word: &&str| {
        (all || word.contains('_'))
            && word.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c))
    };
    last.split('`').skip(1).step_by(2).filter(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        let text = "| a `b_c` | `SCR_D` | `is_there`, `is_not` |\n";
        let page = Source::of("docs/limits.md", text);
        let tests = Source::of("tests/hard/x.py", "def is_there(mpi):\n");
        let found = tests_named(&[page, tests]);
        assert_eq!(found, ["docs/limits.md:1: no test is called is_not"]);
        let tests = || Source::of("tests/hard/x.py", "def is_there(mpi):\n");
        let page = |path| Source::of(path, "| a | `without` |\n");
        assert!(tests_named(&[page("docs/limits.md"), tests()]).is_empty());
        let found = tests_named(&[page("docs/api_manual.md"), tests()]);
        assert_eq!(found, ["docs/api_manual.md:1: no test is called without"]);
    }

    #[test]
    fn a_long_readme_is_found() {
        assert_eq!(readme(&Source::of("README.md", &"x\n".repeat(101))).len(), 1);
        assert!(readme(&Source::of("README.md", &"x\n".repeat(100))).is_empty());
    }
}
