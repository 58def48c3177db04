//! Which file of a crate needs which other one, by the text alone and without tests.
//!
//! A file needs another one if a path in it leads there (through what a `mod.rs` gives out, and
//! through what the file has imported), or if it calls a method that the other one defines: on
//! `self`, one of its own type; on anything else, one whose name no other type of the crate has.
//! What goes through a trait or a closure is not seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;

/// What each file needs of the others. Files are called by their paths below the crate's folder.
pub type Needs = BTreeMap<String, BTreeSet<String>>;

/// Methods of the standard library, which one of ours may have the name of.
const STANDARD: [&str; 24] = [
    "all",
    "any",
    "bytes",
    "clear",
    "contains",
    "count",
    "end",
    "find",
    "first",
    "get",
    "insert",
    "is_file",
    "last",
    "len",
    "lock",
    "next",
    "path",
    "push",
    "read",
    "remove",
    "take",
    "wait",
    "write",
    "write_all",
];

type Words = Vec<String>;

struct File {
    name: String,
    words: Words,
    code: String,
    /// What names in it stand for: what it has imported, and its own modules.
    known: BTreeMap<String, Words>,
}

/// What the files of the crate in `folder` need.
pub fn needs(sources: &[Source], folder: &str) -> Needs {
    let ours = sources.iter().filter(|one| one.is_rust());
    let mut lent = BTreeMap::new();
    let files: Vec<File> = ours
        .filter_map(|one| Some(file(one.path.strip_prefix(folder)?, one.live(), &mut lent)))
        .collect();
    let by_words = files.iter().map(|one| (one.words.as_slice(), one.name.as_str())).collect();
    let methods = Methods::of(&files);
    let of = |one: &File| {
        let mut found = BTreeSet::new();
        for path in paths(one) {
            found.extend(file_of(&by_words, &lent, &path));
        }
        found.extend(methods.called(one));
        found.remove(&one.name);
        (one.name.clone(), found)
    };
    files.iter().map(of).collect()
}

/// A file with what it imports. What it gives out under another path is noted in `lent`.
fn file(name: &str, code: String, lent: &mut BTreeMap<Words, Words>) -> File {
    let own = name.trim_end_matches(".rs");
    let is_folder = own.ends_with("/mod") || own == "mod";
    let own = own.strip_suffix("mod").unwrap_or(own);
    let words: Words = split(if ["lib", "main"].contains(&own) { "" } else { own });
    let mut known = BTreeMap::new();
    for (at, _) in code.match_indices("mod ") {
        let child = word(&code[at + 4..]);
        if (is_folder || words.is_empty()) && code[at + 4 + child.len()..].starts_with(';') {
            known.insert(child.to_string(), [words.as_slice(), &[child.to_string()]].concat());
        }
    }
    for (at, _) in code.match_indices("use ") {
        let before = &code[..at];
        if before.ends_with(|c: char| c == '_' || c.is_alphanumeric()) {
            continue;
        }
        let given = before.trim_end().ends_with("pub") || before.trim_end().ends_with(')');
        let mut found = Vec::new();
        tree(&code[at + 4..], &[], &mut found);
        for (path, name) in found {
            let Some(path) = whole(&words, &known, &path) else { continue };
            if given {
                lent.insert([words.as_slice(), std::slice::from_ref(&name)].concat(), path.clone());
            }
            known.insert(name, path);
        }
    }
    File { name: name.to_string(), words, code, known }
}

fn split(path: &str) -> Words {
    path.split('/').filter(|it| !it.is_empty()).map(Into::into).collect()
}

/// `path` as words from the crate's root, if it leads somewhere in the crate.
fn whole(own: &[String], known: &BTreeMap<String, Words>, path: &[String]) -> Option<Words> {
    let up = path.iter().take_while(|it| *it == "super").count();
    let (start, rest) = match path.first()?.as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (own, &path[1..]),
        "super" => (&own[..own.len().checked_sub(up)?], &path[up..]),
        name => (known.get(name)?.as_slice(), &path[1..]),
    };
    Some([start, rest].concat())
}

/// All paths in the code, as words from the crate's root.
fn paths(one: &File) -> Vec<Words> {
    let mut found = Vec::new();
    for (at, _) in one.code.match_indices("::") {
        let head = head(&one.code[..at]);
        let start = at - head.len();
        if !head.is_empty() && !one.code[..start].ends_with("::") {
            tree(&one.code[start..], &[], &mut found);
        }
    }
    found.iter().filter_map(|(path, _)| whole(&one.words, &one.known, path)).collect()
}

/// The word at the end of `text`.
fn head(text: &str) -> &str {
    text.rsplit(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap_or_default()
}

/// The word at the begin of `text`.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len());
    &text[..end]
}

/// The paths that a use tree has, from `before` on, and the name that each gets. Returns what
/// follows it.
fn tree<'a>(text: &'a str, before: &[String], found: &mut Vec<(Words, String)>) -> &'a str {
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
    let own = word(text);
    let rest = &text[own.len()..];
    let mut path = before.to_vec();
    if !own.is_empty() && (own != "self" || before.is_empty()) {
        path.push(own.to_string());
    }
    if let Some(more) = rest.strip_prefix("::").filter(|_| !own.is_empty()) {
        return tree(more, &path, found);
    }
    let (new, rest) = match rest.trim_start().strip_prefix("as ") {
        Some(more) => (word(more), &more[word(more).len()..]),
        None => ("", rest),
    };
    let last = path.last().cloned().unwrap_or_default();
    found.push((path, if new.is_empty() { last } else { new.to_string() }));
    // A star, or what else may follow a path.
    rest.strip_prefix('*').unwrap_or(rest)
}

/// The file that words lead to something in; none if they name a folder.
fn file_of(
    files: &BTreeMap<&[String], &str>,
    lent: &BTreeMap<Words, Words>,
    words: &[String],
) -> Option<String> {
    for count in (0..=words.len()).rev() {
        if let Some(name) = files.get(&words[..count]) {
            let folder = count == words.len()
                && (name.ends_with("mod.rs") || ["lib.rs", "main.rs"].contains(name));
            return (!folder).then(|| (*name).to_string());
        }
        if let Some(there) = lent.get(&words[..count]).filter(|there| **there != words[..count]) {
            return file_of(files, lent, &[there.as_slice(), &words[count..]].concat());
        }
    }
    None
}

/// An `impl` of a file: its type, whether it is of a trait, its text.
fn bodies(code: &str) -> impl Iterator<Item = (&str, bool, &str)> {
    let heads = code.match_indices("\nimpl").filter_map(|(at, _)| {
        let text = &code[at + 1..];
        let open = text.find('{')?;
        let end = text.find("\n}").filter(|end| *end > open).unwrap_or(open);
        Some((&text[..open], &text[open..end]))
    });
    heads.map(|(head, body)| {
        let (of_trait, own) = match head.split_once(" for ") {
            Some((_, own)) => (true, own),
            None => (false, after_generics(head.trim_start_matches("impl"))),
        };
        let own = own.split(['<', ' ']).find(|it| !it.is_empty()).unwrap_or_default();
        (own.rsplit("::").next().unwrap_or_default(), of_trait, body)
    })
}

fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text[at..].trim_start_matches('>');
        }
    }
    text
}

fn functions(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("fn ").map(|(at, _)| word(&code[at + 3..])).filter(|name| !name.is_empty())
}

/// Where methods are defined.
struct Methods {
    /// By folder, type and name.
    of_type: BTreeMap<(String, String, String), BTreeSet<String>>,
    /// Those of one type and no trait.
    single: BTreeMap<String, String>,
}

impl Methods {
    fn of(files: &[File]) -> Methods {
        let mut of_type: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for one in files {
            for (own, of_trait, body) in bodies(&one.code) {
                for name in functions(body) {
                    if of_trait {
                        // Somewhere else, too: that of another type.
                        places.entry(name).or_default().insert("");
                    } else {
                        let key = (room(one), own.to_string(), name.to_string());
                        of_type.entry(key).or_default().insert(one.name.clone());
                    }
                    places.entry(name).or_default().insert(&one.name);
                }
            }
        }
        let single = places.into_iter().filter_map(|(name, places)| {
            let place = places.first().filter(|_| places.len() == 1)?;
            (!STANDARD.contains(&name)).then(|| (name.to_string(), (*place).to_string()))
        });
        Methods { single: single.collect(), of_type }
    }

    /// The files whose methods `one` calls.
    fn called(&self, one: &File) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (own, _, body) in bodies(&one.code) {
            for name in ["self", "Self"].iter().flat_map(|on| calls(body, on)) {
                let key = (room(one), own.to_string(), name.to_string());
                found.extend(self.of_type.get(&key).into_iter().flatten().cloned());
            }
        }
        let all = calls(&one.code, "").filter_map(|name| self.single.get(name));
        let own = room(one);
        found.extend(all.filter(|place| split(place).first() == Some(&own)).cloned());
        found
    }
}

/// The folder of the crate that a file is in: other folders are above or below it.
fn room(one: &File) -> String {
    one.words.first().cloned().unwrap_or_default()
}

/// Names of the methods that are called on `on`; on anything if that is empty.
fn calls<'a>(code: &'a str, on: &'a str) -> impl Iterator<Item = &'a str> {
    let dots: Vec<usize> = if on.is_empty() {
        code.match_indices('.').map(|(at, _)| at).collect()
    } else {
        code.match_indices(on).map(|(at, _)| at + on.len()).collect()
    };
    dots.into_iter().filter_map(|at| {
        let rest = code[at..].trim_start();
        let rest = rest.strip_prefix('.').or_else(|| rest.strip_prefix("::"))?;
        let name = word(rest);
        (!name.is_empty() && rest[name.len()..].starts_with('(')).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], of: &str) -> Vec<String> {
        let of_file = |(name, text): &(&str, &str)| Source::of(&format!("src/core/{name}"), text);
        let all: Vec<Source> = files.iter().map(of_file).collect();
        needs(&all, "src/core/")[of].iter().cloned().collect()
    }

    #[test]
    fn paths_lead_through_folders_and_new_names() {
        let all = [
            ("a/mod.rs", "mod x;\nmod y;\npub use x::{X, Y as Z};\nfn f() { y::g() }\n"),
            ("a/x.rs", "use super::{y, f};\nuse crate::b;\nfn g() { b::c::d() }\n"),
            ("a/y.rs", "#[cfg(test)]\nmod tests { use super::super::x; }\n"),
            ("b/mod.rs", "pub(crate) mod c;\n"),
            ("b/c.rs", "use crate::a::{self, Z};\nuse crate::{b};\nfn d() { a::f(b) }\n"),
        ];
        assert_eq!(found(&all, "a/mod.rs"), ["a/x.rs", "a/y.rs"]);
        assert_eq!(found(&all, "a/x.rs"), ["a/mod.rs", "a/y.rs", "b/c.rs"]);
        assert!(found(&all, "a/y.rs").is_empty());
        assert_eq!(found(&all, "b/c.rs"), ["a/mod.rs", "a/x.rs"]);
    }

    #[test]
    fn calls_lead_to_methods_of_the_own_type_and_to_names_that_are_one_types() {
        let all = [
            ("a/x.rs", "\nimpl<T: B> X<T> {\n    fn f(&self) { self\n.g(); Self::h() }\n}\n"),
            ("a/y.rs", "\nimpl X<u8> {\n    fn g(&self) {}\n}\nfn k(x: X) { x.only() }\n"),
            ("a/z.rs", "\nimpl X<u8> {\n    fn h() {}\n    fn only(self) {}\n}\n"),
            ("a/w.rs", "\nimpl W {\n    fn g(&self) {}\n}\nfn k(x: X) { x.g(); x.len() }\n"),
        ];
        assert_eq!(found(&all, "a/x.rs"), ["a/y.rs", "a/z.rs"]);
        assert_eq!(found(&all, "a/y.rs"), ["a/z.rs"]);
        assert!(found(&all, "a/w.rs").is_empty());
    }
}
