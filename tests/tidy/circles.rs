//! Circles of files: who changes one file of a circle has to know all of them.
//!
//! How it is counted, in one folder and all below it, by the text alone and without tests:
//! a file needs another one if a path in it (`crate::...`, `super::...`) leads there; in the
//! session also if it calls a method of `Session` on `self` that the other file defines. A `mod.rs`
//! is no file of its own, since it names all of its folder; what it gives out is where it comes
//! from. The files in `rank/`, which hold the
//! state of all rooms, name the types of all and are named by all: there, only calls count. What
//! goes through another object than `self`, a closure or a trait is not seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;

/// A folder, the path that leads to it, and the most files that may be in one circle.
const FOLDERS: [(&str, &str, usize); 2] =
    [("src/core/session/", "crate::session::", SESSION_MAX), ("preload/src/", "crate::", SHIM_MAX)];

/// A halt ends the run within a conference, and the end confers.
const SESSION_MAX: usize = 4;

/// A guard lets signals in that came meanwhile, and these are answered under a guard.
const SHIM_MAX: usize = 4;

/// What a file needs of the others, by their names below the folder.
type Needs = BTreeMap<String, BTreeSet<String>>;

/// Folders whose largest circle is too large.
pub fn too_large(sources: &[Source]) -> Vec<String> {
    FOLDERS.iter().filter_map(|one| judge(sources, *one)).collect()
}

fn judge(sources: &[Source], (folder, path, max): (&str, &str, usize)) -> Option<String> {
    let mut circles = circles(&needs(sources, folder, path));
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    let largest = circles.first().map_or(&[][..], Vec::as_slice);
    let (count, files) = (largest.len(), largest.join(", "));
    println!("largest circle of files in {folder}: {count} ({files})");
    (count > max).then(|| format!("{folder} has a circle of {count} files, {max} at most: {files}"))
}

fn needs(sources: &[Source], folder: &str, path: &str) -> Needs {
    let files: BTreeMap<&str, String> = sources
        .iter()
        .filter(|one| one.is_rust() && !one.path.ends_with("/mod.rs"))
        .filter_map(|one| Some((one.path.strip_prefix(folder)?.strip_suffix(".rs")?, one.live())))
        .collect();
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, code) in &files {
        for method in methods(code) {
            owners.entry(method).or_default().push(name);
        }
    }
    let lent = lent(sources, folder);
    let of = |(name, code): (&&str, &String)| {
        let mut found = BTreeSet::new();
        for (at, _) in code.match_indices("::") {
            let led = lead(name, path, code, at).into_iter();
            found.extend(led.filter_map(|words| file_of(&files, &lent, &words)));
        }
        if name.starts_with("rank/") {
            found.clear();
        }
        found.retain(|other: &String| !other.starts_with("rank/"));
        let called = calls(code).filter_map(|method| owners.get(method));
        found.extend(called.flatten().map(ToString::to_string));
        found.remove(*name);
        ((*name).to_string(), found)
    };
    files.iter().map(of).collect()
}

/// Where the path that begins with the `::` at `at` leads, as words below the folder; several if
/// it ends in braces.
fn lead(name: &str, path: &str, code: &str, at: usize) -> Vec<Vec<String>> {
    let head = code[..at].rsplit(|c: char| c != ':' && c != '_' && !c.is_alphanumeric()).next();
    let above = || name.rsplit_once('/').map_or("", |(above, _)| above);
    let start = match (head, path.trim_end_matches("::").split("::").count()) {
        (Some("super"), _) => above(),
        (Some("crate"), 1) => "",
        (Some("crate"), _) if code[at - "crate".len()..].starts_with(path) => "",
        _ => return Vec::new(),
    };
    let skip = if head == Some("crate") { path.len() - "crate".len() } else { "::".len() };
    let start: Vec<String> = start.split('/').filter(|it| !it.is_empty()).map(Into::into).collect();
    let mut found = Vec::new();
    tree(&code[at + skip..], &start, &mut found);
    found
}

/// The paths that a use tree has, from `before` on. Returns what follows it.
fn tree<'a>(text: &'a str, before: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = tree(rest, before, found).trim_start();
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let mut path = before.to_vec();
    match word {
        "super" => drop(path.pop()),
        "self" | "" => {}
        word => path.push(word.to_string()),
    }
    match rest.strip_prefix("::") {
        Some(more) if !word.is_empty() => tree(more, &path, found),
        _ => {
            found.push(path);
            // A new name, or a star.
            rest.find([',', '}', ';', '(', ' ']).map_or("", |at| match rest.as_bytes()[at] {
                b' ' => rest[at..].find([',', '}', ';']).map_or("", |more| &rest[at + more..]),
                _ => &rest[at..],
            })
        }
    }
}

/// What the `mod.rs` of a folder gives out under its own name, with the words that lead there.
fn lent(sources: &[Source], folder: &str) -> BTreeMap<String, Vec<String>> {
    let mut lent = BTreeMap::new();
    for one in sources {
        let above = one.path.strip_prefix(folder).and_then(|name| name.strip_suffix("mod.rs"));
        let Some(above) = above else { continue };
        let words: Vec<String> =
            above.split('/').filter(|it| !it.is_empty()).map(Into::into).collect();
        let code = one.live();
        for (at, _) in code.match_indices("use ") {
            let before = code[..at].trim_end();
            let mut found = Vec::new();
            if before.ends_with("pub") || before.ends_with(')') {
                tree(code[at + 4..].trim_start_matches("self::"), &words, &mut found);
            }
            for path in found {
                let own = path.last().map_or("", String::as_str);
                lent.insert(format!("{above}{own}"), path);
            }
        }
    }
    lent
}

/// The file that words lead to, or to something in it.
fn file_of(
    files: &BTreeMap<&str, String>,
    lent: &BTreeMap<String, Vec<String>>,
    words: &[String],
) -> Option<String> {
    let paths = (1..=words.len()).rev().map(|count| words[..count].join("/"));
    paths.into_iter().find_map(|path| {
        if files.contains_key(path.as_str()) {
            return Some(path);
        }
        let there = lent.get(&path).filter(|there| there.join("/") != path)?;
        file_of(files, lent, there)
    })
}

/// The bodies of `impl Session`.
fn bodies(code: &str) -> impl Iterator<Item = &str> {
    let heads = code.match_indices("\nimpl Session {");
    heads.map(|(at, _)| code[at + 1..].find("\n}").map_or("", |end| &code[at + 1..][..end]))
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len());
    &text[..end]
}

fn methods(code: &str) -> impl Iterator<Item = &str> {
    let all =
        bodies(code).flat_map(|body| body.match_indices("fn ").map(|(at, _)| &body[at + 3..]));
    all.map(word).filter(|name| !name.is_empty())
}

fn calls(code: &str) -> impl Iterator<Item = &str> {
    let all =
        bodies(code).flat_map(|body| body.match_indices("self").map(|(at, _)| &body[at + 4..]));
    all.filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix('.')?;
        let name = word(rest);
        rest[name.len()..].starts_with('(').then_some(name)
    })
}

/// Sets of files each of which needs all others of its set.
fn circles(needs: &Needs) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(one) = open.pop() {
            for other in needs.get(one).into_iter().flatten() {
                if found.insert(other) {
                    open.push(other);
                }
            }
        }
        found
    };
    let all: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|name| (name, reached(name))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (name, reach) in all.iter().filter(|(name, reach)| reach.contains(*name)) {
        let both = reach.iter().filter(|other| all[**other].contains(name));
        circles.insert(both.map(|other| (*other).clone()).collect());
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> Source {
        Source::of(&format!("src/core/session/{name}"), text)
    }

    fn found(sources: &[Source]) -> Vec<Vec<String>> {
        circles(&needs(sources, FOLDERS[0].0, FOLDERS[0].1))
    }

    #[test]
    fn a_circle_of_uses_is_found() {
        let all = [
            source("names/a.rs", "use super::{b::B, other};\n"),
            source("names/b.rs", "use crate::session::{flush::{c as d, e::*}, x};\n"),
            source("flush/c.rs", "fn f() { crate::session::names::a::g() }\n"),
            source("flush/e.rs", "use super::super::names::b;\n"),
            source("flush/f.rs", "use super::c;\n"),
            source("flush/mod.rs", "mod f;\npub(super) use f::{F, G as H};\n"),
            source("stores/g.rs", "use crate::session::flush::F;\n"),
        ];
        assert_eq!(found(&all), [["flush/c", "flush/e", "names/a", "names/b"]]);
        let needs = needs(&all, FOLDERS[0].0, FOLDERS[0].1);
        assert_eq!(needs["stores/g"].iter().collect::<Vec<_>>(), ["flush/f"]);
    }

    #[test]
    fn a_circle_of_calls_is_found_and_tests_do_not_count() {
        let one = "\nimpl Session {\n    fn f(&self) { self.g(1) }\n}\n";
        let other = "\nimpl Session {\n    pub fn g(&self) { self\n        .f() }\n}\n";
        let all = [source("rank/a.rs", one), source("names/b.rs", other)];
        assert_eq!(found(&all), [["names/b", "rank/a"]]);
        let tested = "\n#[cfg(test)]\nmod tests { use crate::session::names::b; }\n";
        let all = [source("names/a.rs", tested), source("names/b.rs", "use super::a;\n")];
        assert!(found(&all).is_empty());
        let all = [
            source("rank/a.rs", "use crate::session::names::b::B;"),
            source("names/b.rs", "use crate::session::rank::a::A;"),
        ];
        assert!(found(&all).is_empty());
    }

    #[test]
    fn a_circle_that_is_too_large_is_told() {
        let all = [source("names/a.rs", "use super::b;"), source("names/b.rs", "use super::a;")];
        let judged = |max| judge(&all, (FOLDERS[0].0, FOLDERS[0].1, max));
        assert!(judged(2).is_none() && judged(1).is_some_and(|it| it.contains("names/a, names/b")));
    }
}
