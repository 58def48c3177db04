//! What is to become less: figures of the code's structure. Each may only fall, and when one has
//! fallen, its row is lowered, so that nobody can use up again what has been won.
//!
//! Of each folder of the core, the shim and the command: files in the largest circle that one of
//! its files is in, links from one of its rooms to a higher one, most files in one folder. Of the
//! core: files that have methods of `Session`, fields of its `State`, flags of structs that have
//! many, parameters that are tuples, names that several types have. Rows are left out that have
//! come to their aim.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::circles::circles;
use crate::links::needs;
use crate::rooms;
use crate::source::Source;

type Figures = BTreeMap<String, usize>;

/// A crate has all its code below one folder.
const CRATES: [&str; 4] = ["src/core/", "preload/src/", "src/abi/", "src/cli/"];

/// A folder that nobody sees at a glance is two.
const FILES_MAX: usize = 13;

/// A struct with more of them has several matters of which each should be one.
const FLAGS_MAX: usize = 4;

/// The session is its doors and the order of calls, and what its lock guards is what calls of the
/// program need together: all else is its owners'.
const AIMS: [(&str, usize); 2] = [("fields of State", 5), ("files with methods of Session", 8)];

const TODAY: &[(&str, usize)] = &[];

/// Rows that do not say what is.
pub fn complaints(sources: &[Source]) -> Vec<String> {
    let table = TODAY.iter().map(|(name, figure)| ((*name).to_string(), *figure)).collect();
    let mut found = Figures::new();
    CRATES.iter().for_each(|place| folders(sources, place, &mut found));
    core(sources, &mut found);
    compare(&table, &found)
}

fn compare(table: &Figures, found: &Figures) -> Vec<String> {
    let names: BTreeSet<&String> = table.keys().chain(found.keys()).collect();
    let of = |name: &String| {
        let [before, now] = [table, found].map(|all| all.get(name).copied().unwrap_or(0));
        match now.cmp(&before) {
            Ordering::Equal => None,
            Ordering::Greater => Some(format!("{name}: {now}, at most {before}")),
            Ordering::Less => Some(format!("{name}: {now} now, lower its row of {before}")),
        }
    };
    names.into_iter().filter_map(of).collect()
}

/// Circles, links that point up and full folders of the crate in `place`.
fn folders(sources: &[Source], place: &str, found: &mut Figures) {
    let needs = needs(sources, place);
    let mut raise = |what: String, figure: usize, aim: usize| {
        if figure > aim {
            let old = found.entry(what).or_default();
            *old = figure.max(*old);
        }
    };
    for circle in circles(&needs) {
        println!("circle in {place}: {}", circle.join(" "));
        for file in &circle {
            let folder = file.split('/').next().unwrap_or_default();
            raise(format!("{place}{folder}, circle of files"), circle.len(), 1);
        }
    }
    let mut full: BTreeMap<&str, usize> = BTreeMap::new();
    for file in needs.keys() {
        *full.entry(file.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default() += 1;
    }
    for (folder, files) in full {
        raise(format!("{place}{folder}, files"), files, FILES_MAX);
    }
    for (folder, links) in rooms::links_up(place, &needs) {
        println!("links up in {folder}: {}", links.join(", "));
        raise(format!("{}, links up", folder.trim_end_matches('/')), links.len(), 0);
    }
}

/// The figures that are one for all of the core.
fn core(sources: &[Source], found: &mut Figures) {
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    let mut put = |what: &str, figure: usize| {
        if figure > 0 {
            *found.entry(what.to_string()).or_default() += figure;
        }
    };
    for one in sources.iter().filter(|one| one.is_rust()) {
        if !CRATES.iter().any(|place| one.path.starts_with(place)) {
            continue;
        }
        let code = one.live();
        put("parameters that are tuples", tuples(&code));
        if !one.path.starts_with(CRATES[0]) {
            continue;
        }
        put("files with methods of Session", usize::from(code.contains("\nimpl Session {")));
        for (name, body) in structs(&code) {
            let flags = body.lines().filter(|line| line.trim_end().ends_with(": bool,")).count();
            if flags > FLAGS_MAX {
                put(&format!("flags of {name}"), flags);
            }
            if name == "State" && one.path.starts_with("src/core/session/") {
                put("fields of State", body.lines().filter(|line| line.ends_with(',')).count());
            }
        }
        for kind in ["struct ", "enum ", "trait ", "type "] {
            for name in defined(&code, kind) {
                *types.entry(name.to_string()).or_default() += 1;
            }
        }
    }
    put("names of several types", types.values().filter(|count| **count > 1).count());
    found.retain(|name, figure| !AIMS.iter().any(|(row, aim)| row == name && *figure <= *aim));
}

/// Types that begin at the begin of a line, whoever may see them.
fn defined<'a>(code: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
    code.lines().filter_map(move |line| {
        let (before, name) = line.split_once(kind)?;
        let whole =
            ["", "pub "].contains(&before) || before.starts_with("pub(") && before.ends_with(") ");
        let end = name.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(name.len());
        whole.then_some(&name[..end])
    })
}

/// Name and fields of each struct.
fn structs(code: &str) -> impl Iterator<Item = (&str, &str)> {
    code.match_indices("struct ").filter_map(|(at, head)| {
        let text = &code[at + head.len()..];
        let open = text.find([';', '(', '{']).filter(|open| text[*open..].starts_with('{'))?;
        let name = text[..open].split([' ', '<', '\n']).next()?;
        let end = text[open..].find("\n}")?;
        Some((name, &text[open + 1..open + end]))
    })
}

/// Number of parameters of functions that are a tuple or a reference to one.
fn tuples(code: &str) -> usize {
    let parameters = |(at, _)| {
        let text: &str = &code[at..];
        let end = text.find(['{', ';']).unwrap_or(text.len());
        let close = text[..end].find("->").unwrap_or(end);
        let all = text[..close].replace("&mut ", "").replace('&', "");
        all.matches(": (").count() - all.matches(": ()").count()
    };
    code.match_indices("fn ").map(parameters).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(&str, usize)]) -> Figures {
        rows.iter().map(|(name, figure)| ((*name).to_string(), *figure)).collect()
    }

    #[test]
    fn a_figure_that_is_not_that_of_its_row_is_found() {
        let table = of(&[("a", 2), ("b", 3)]);
        assert!(compare(&table, &table).is_empty());
        assert_eq!(compare(&table, &of(&[("a", 3), ("b", 3)])), ["a: 3, at most 2"]);
        assert_eq!(compare(&table, &of(&[("a", 2)])), ["b: 0 now, lower its row of 3"]);
        assert_eq!(compare(&of(&[]), &of(&[("a", 1)])), ["a: 1, at most 0"]);
    }

    #[test]
    fn folders_are_measured() {
        let mut all: Vec<Source> = (0..=FILES_MAX)
            .map(|at| Source::of(&format!("src/core/session/names/f{at}.rs"), ""))
            .collect();
        all[0].text = "use super::f1;\nuse crate::session::rank::R;\n".to_string();
        all[1].text = "use super::f0;\nuse crate::session::launch::L;\n".to_string();
        all.push(Source::of("src/core/session/launch/mod.rs", ""));
        all.push(Source::of("src/core/session/rank/mod.rs", ""));
        let mut found = Figures::new();
        folders(&all, "src/core/", &mut found);
        let rows = [
            ("src/core/session, circle of files", 2),
            ("src/core/session, links up", 1),
            ("src/core/session/names, files", FILES_MAX + 1),
        ];
        assert_eq!(found, of(&rows));
    }

    #[test]
    fn the_core_is_measured() {
        let text = "
pub(in crate::session) struct State<T> {
    pub a: bool,
    b: bool,
    c: bool,
    d: bool,
    e: bool,
    f: Vec<(bool, u8)>,
}
struct Other(bool);
fn f(a: &mut (u8, u8), b: (), c: (u8, u8)) -> (u8, u8) {}
impl Session {
}
";
        let names = ["node/state.rs", "other.rs"];
        let files = names.map(|name| Source::of(&format!("src/core/session/{name}"), text));
        let mut found = Figures::new();
        core(&files, &mut found);
        let rows = [
            ("fields of State", 12),
            ("flags of State", 10),
            ("names of several types", 2),
            ("parameters that are tuples", 4),
        ];
        assert_eq!(found, of(&rows));
    }
}
