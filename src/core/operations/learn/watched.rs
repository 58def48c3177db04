//! What watched ranks have written down (`preload/src/engine/watch.rs`), put together to the
//! writings of each file below the prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use scr_abi::accesses::Access;

use crate::error::{Error, Result};
use crate::machine::{Accesses, OfNode, Why, judge};

const WRITES: i64 = (libc::O_WRONLY | libc::O_RDWR) as i64;
const TRUNCATES: i64 = libc::O_TRUNC as i64;
const APPENDS: i64 = libc::O_APPEND as i64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileKind {
    #[default]
    File,
    Link,
    /// It had another name for a while, until the program wrote that anew.
    Kept,
}

/// One writing of a file, from its making (or making anew) to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Written {
    /// Its last name, relative to the prefix.
    pub name: String,
    /// The rank that wrote first.
    pub rank: usize,
    /// All ranks that wrote.
    pub writers: BTreeSet<usize>,
    /// When it began, seconds since 1970.
    pub begun: f64,
    /// Collectives that its first writer had passed by then.
    pub syncs: u64,
    /// Collectives that had been passed when it was closed or renamed last.
    pub rests: u64,
    /// Bytes, as of its last close.
    pub bytes: u64,
    /// Its name before the program renamed it.
    pub temporary: Option<String>,
    /// It was opened to append to it.
    pub appended: bool,
    /// It was opened again after its last close, without being truncated.
    pub reopened: bool,
    /// A rank that did not write it has read it.
    pub read_elsewhere: bool,
    /// What it is.
    pub kind: FileKind,
    /// Descriptors on it that are open in the end.
    pub open: usize,
    /// Its time of modification when it was opened, 0 without the file.
    pub before: i64,
    /// Something was written to it, or it was made.
    pub changed: bool,
    /// When the program deleted it.
    pub gone: Option<f64>,
    /// When it was found gone or changed, and no rank had done that.
    pub lost: Option<f64>,
    /// What each rank has done to it.
    pub done: BTreeMap<usize, Accesses>,
    /// Why it is not cached, if ranks of several nodes write it.
    pub why: Option<Why>,
}

/// A whole run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Watched {
    /// The prefix directory of the ranks.
    pub prefix: PathBuf,
    /// Number of ranks that wrote down what they did.
    pub ranks: usize,
    /// All writings in the order of their beginnings.
    pub files: Vec<Written>,
    /// Collectives that the ranks passed, at most.
    pub syncs: u64,
    /// Some rank did more than is written down.
    pub cut: bool,
}

struct WatchedLine {
    time: f64,
    rank: usize,
    syncs: u64,
    what: String,
    rest: String,
}

pub(super) fn read(directory: &Path) -> Result<Watched> {
    let unreadable = |error| Error::io("cannot read", directory, error);
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let bytes = std::fs::read(&path).map_err(|error| Error::io("cannot read", &path, error))?;
        texts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    texts.sort();
    of_texts(&texts).ok_or_else(|| Error::Refused("no rank of the program was watched".to_owned()))
}

pub(super) fn of_texts(texts: &[String]) -> Option<Watched> {
    let mut lines: Vec<WatchedLine> = Vec::new();
    let mut watched = Watched::default();
    let mut hosts: BTreeMap<usize, &str> = BTreeMap::new();
    for (at, text) in texts.iter().enumerate() {
        let Some((head, body)) = text.split_once('\n') else { continue };
        let words: Vec<&str> = head.splitn(5, ' ').collect();
        let ["watch", "2", rank, host, prefix] = words[..] else { continue };
        watched.prefix = PathBuf::from(unescaped(prefix));
        watched.ranks += 1;
        let rank = rank.parse().unwrap_or(at);
        hosts.insert(rank, host);
        lines.extend(body.lines().filter_map(|line| parse(line, rank)));
    }
    lines.sort_by(|a, b| a.time.total_cmp(&b.time));
    let mut story = Story { prefix: watched.prefix.clone(), ..Story::default() };
    for line in &lines {
        watched.syncs = watched.syncs.max(line.syncs);
        watched.cut |= line.what == "cut";
        story.tell(line);
    }
    story.files.retain(|file| file.changed);
    story.files.sort_by(|a, b| a.begun.total_cmp(&b.begun));
    let counts: BTreeSet<u64> = story.syncs.values().copied().collect();
    story.files.iter_mut().for_each(|file| file.why = why(file, &hosts, counts.len() < 2));
    watched.files = story.files;
    (watched.ranks > 0).then_some(watched)
}

fn parse(line: &str, rank: usize) -> Option<WatchedLine> {
    let mut words = line.splitn(4, ' ');
    let (time, syncs, what) = (words.next()?, words.next()?, words.next()?);
    let time = time.parse().ok().filter(|time: &f64| time.is_finite())?;
    let rest = words.next().unwrap_or_default().to_owned();
    Some(WatchedLine { time, rank, syncs: syncs.parse().ok()?, what: what.to_owned(), rest })
}

fn unescaped(text: &str) -> String {
    let (mut plain, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => plain.extend(letters.next()),
            (letter, false) => plain.push(letter),
        }
    }
    plain
}

#[derive(Default)]
struct Story {
    prefix: PathBuf,
    files: Vec<Written>,
    named: BTreeMap<String, usize>,
    /// Names that files were renamed from, until something else has them.
    left: BTreeMap<String, EarlierName>,
    /// Names that MPI-IO opens, on several ranks perhaps.
    shared: BTreeSet<String>,
    /// By rank and token.
    open: BTreeMap<(usize, u64), usize>,
    /// What was done through descriptors, of which the close has not been told.
    did: BTreeMap<(usize, u64), Did>,
    /// Collectives that each rank has passed in the end.
    syncs: BTreeMap<usize, u64>,
}

/// A file as it was under an earlier name, and when it was renamed.
struct EarlierName {
    file: Written,
    at: usize,
    time: f64,
    syncs: u64,
}

#[derive(Default)]
struct Did {
    traits: u64,
    all: Vec<Access>,
}

/// Tells why a file of ranks of several nodes is not cached. Ranks that have not `counted` alike
/// tell nothing of the order of what they have done.
fn why(file: &Written, hosts: &BTreeMap<usize, &str>, counted: bool) -> Option<Why> {
    let nodes: BTreeSet<_> = file.writers.iter().map(|rank| hosts.get(rank)).collect();
    if nodes.len() < 2 {
        return None;
    }
    let of_rank = |rank: &usize| {
        let node = nodes.iter().position(|node| *node == hosts.get(rank))?;
        Some(OfNode { node, done: file.done.get(rank)? })
    };
    let all: Option<Vec<OfNode<'_>>> = file.writers.iter().map(of_rank).collect();
    Some(all.filter(|_| counted).map_or(Why::Writers, |all| judge(&all)))
}

impl Story {
    fn tell(&mut self, line: &WatchedLine) {
        self.syncs.insert(line.rank, line.syncs);
        match line.what.as_str() {
            "traits" | "did" => self.did(line),
            "open" => self.opened(line),
            "close" => self.closed(line),
            "mpi" => self.shared.extend(self.name(&line.rest)),
            "unlink" => {
                let name = self.name(&line.rest);
                name.into_iter().for_each(|name| self.remove(&name, line.time));
            }
            "lost" => {
                let at = self.name(&line.rest).and_then(|name| self.named.get(&name));
                let file = at.map(|at| &mut self.files[*at]);
                let own = |file: &&mut Written| file.writers.iter().eq([&line.rank]);
                file.filter(own).into_iter().for_each(|file| file.lost = Some(line.time));
            }
            "rename" => {
                let names = line.rest.split_once('\t');
                names.into_iter().for_each(|(from, to)| self.renamed(from, to, line));
            }
            "link" => self.linked(line),
            _ => {}
        }
    }

    /// SCR's own files have none.
    fn name(&self, path: &str) -> Option<String> {
        let path = unescaped(path);
        let name = Path::new(&path).strip_prefix(&self.prefix).ok()?.to_str()?.to_owned();
        let own = name.is_empty() || name == ".scr" || name.starts_with(".scr/");
        (!own).then_some(name)
    }

    fn opened(&mut self, line: &WatchedLine) {
        let mut words = line.rest.splitn(4, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<i64>().ok());
        let (Some(token), Some(flags), Some(before)) = (number(), number(), number()) else {
            return;
        };
        let Some(name) = words.next().and_then(|path| self.name(path)) else { return };
        let fresh = flags & TRUNCATES != 0 || before == 0;
        let known = self.named.get(&name).copied();
        if flags & WRITES == 0 {
            if let Some(at) = known {
                let file = &mut self.files[at];
                file.read_elsewhere |= !file.writers.contains(&line.rank);
            }
            return;
        }
        // What is opened again later is written anew, as far as one can see: Fortran truncates at
        // the end of what it has written.
        let again = |file: &Written| file.open == 0 && file.rank == line.rank;
        let goes_on = |file: &Written| match flags & TRUNCATES {
            0 => {
                let as_before = flags & APPENDS != 0 || self.shared.contains(&file.name);
                as_before || !again(file) || line.syncs == file.syncs
            }
            _ => file.open > 0 && !file.writers.contains(&line.rank),
        };
        let at = match known.filter(|at| goes_on(&self.files[*at])) {
            Some(at) => at,
            None => self.begun(name, line),
        };
        let file = &mut self.files[at];
        file.reopened |= known.is_some() && file.open == 0 && flags & TRUNCATES == 0;
        file.changed |= fresh;
        file.before = if file.open == 0 { before } else { file.before };
        file.appended |= flags & APPENDS != 0;
        file.writers.insert(line.rank);
        file.open += 1;
        self.open.insert((line.rank, token.unsigned_abs()), at);
    }

    fn did(&mut self, line: &WatchedLine) {
        let words: Vec<u64> = line.rest.split(' ').filter_map(|word| word.parse().ok()).collect();
        let did = |token: &u64| (line.rank, *token);
        match words[..] {
            [token, traits] => self.did.entry(did(&token)).or_default().traits |= traits,
            [token, tag, start, end] => {
                let all = &mut self.did.entry(did(&token)).or_default().all;
                all.extend(Access::of(tag, 0, start, end));
            }
            _ => {}
        }
    }

    fn begun(&mut self, name: String, line: &WatchedLine) -> usize {
        let (rank, begun, syncs, rests) = (line.rank, line.time, line.syncs, line.syncs);
        self.taken(&name, syncs);
        self.named.insert(name.clone(), self.files.len());
        self.files.push(Written { name, rank, begun, syncs, rests, ..Written::default() });
        self.files.len() - 1
    }

    fn closed(&mut self, line: &WatchedLine) {
        let mut words = line.rest.split(' ').map(|word| word.parse::<u64>().unwrap_or(0));
        let token = words.next().unwrap_or(0);
        if let Some(at) = self.open.remove(&(line.rank, token)) {
            let file = &mut self.files[at];
            file.open = file.open.saturating_sub(1);
            (file.bytes, file.rests) = (words.next().unwrap_or(0), line.syncs);
            if let Some(Did { traits, all }) = self.did.remove(&(line.rank, token)) {
                let done = Accesses { bytes: file.bytes, ..Accesses::new(traits, all) };
                file.done.entry(line.rank).or_default().add(&done);
            }
            file.changed |= words.next() != u64::try_from(file.before).ok();
        }
    }

    fn remove(&mut self, name: &str, time: f64) {
        if let Some(at) = self.named.remove(name) {
            self.files[at].gone = Some(time);
        }
    }

    /// Takes a name for another file. It was no temporary one of the file before if that had it
    /// for longer than nothing had it then: a restart finds that file under both of its names.
    fn taken(&mut self, name: &str, syncs: u64) {
        let Some(left) = self.left.remove(name) else { return };
        let had = left.syncs.saturating_sub(left.file.rests);
        if left.file.open == 0 && had > syncs.saturating_sub(left.syncs) {
            let moved = &mut self.files[left.at];
            (moved.begun, moved.syncs, moved.kind) = (left.time, left.syncs, FileKind::Kept);
            self.files.push(left.file);
        }
    }

    /// Moves a file, or a directory with all that is in it.
    fn renamed(&mut self, from: &str, to: &str, line: &WatchedLine) {
        let (from, to) = (self.name(from), self.name(to));
        let Some(from) = from else { return };
        let below = format!("{from}/");
        let is_moved = |name: &&String| **name == from || name.starts_with(&below);
        let moved: Vec<String> = self.named.keys().filter(is_moved).cloned().collect();
        for name in moved {
            let Some(to) = &to else {
                self.remove(&name, line.time);
                continue;
            };
            let Some(at) = self.named.remove(&name) else { continue };
            let new = format!("{to}{}", &name[from.len()..]);
            self.taken(&new, line.syncs);
            self.named.insert(new.clone(), at);
            let (file, time, syncs) = (self.files[at].clone(), line.time, line.syncs);
            self.left.insert(name.clone(), EarlierName { file, at, time, syncs });
            let file = &mut self.files[at];
            file.temporary.get_or_insert(name);
            (file.name, file.rests) = (new, syncs);
        }
    }

    fn linked(&mut self, line: &WatchedLine) {
        let Some((_, path)) = line.rest.split_once('\t') else { return };
        let Some(name) = self.name(path) else { return };
        let at = self.begun(name, line);
        let file = &mut self.files[at];
        (file.kind, file.changed) = (FileKind::Link, true);
        file.writers.insert(line.rank);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes a rank's text: `<what> <arguments>` a line, ten milliseconds and a collective apart.
    pub fn rank(rank: usize, lines: &[&str]) -> String {
        let line = |(at, text): (usize, &&str)| format!("{}.{rank} {at} {text}\n", 1000 + at);
        let body: String = lines.iter().enumerate().map(line).collect();
        format!("watch 2 {rank} n{rank} /p\n{body}")
    }

    #[test]
    fn writings_are_told_apart() {
        let one = rank(
            0,
            &[
                "open 1 577 0 /p/s.new",
                "close 1 10 8",
                "rename /p/s.new\t/p/s",
                "open 2 577 0 /p/s.new",
                "close 2 20 9",
                "rename /p/s.new\t/p/s",
                "open 3 1089 0 /p/log",
                "open 4 65 0 /p/all",
                "open 0 0 5 /p/own.1",
                "open 5 577 0 /elsewhere/x",
                "open 6 2 7 /p/input",
                "close 6 10 7",
                "unlink /p/s",
            ],
        );
        let other = rank(
            1,
            &["", "", "", "open 9 577 0 /p/own.1", "close 9 7 9", "", "", "", "open 7 66 6 /p/all"],
        );
        let found = of_texts(&[one, other, "no watch".into()]).expect("a run");
        let names: Vec<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!((found.ranks, names), (2, vec!["s", "s", "own.1", "log", "all"]));
        assert_eq!(found.files[0].temporary.as_deref(), Some("s.new"));
        assert_eq!((found.files[0].bytes, found.files[0].gone), (10, None));
        assert_eq!((found.files[1].bytes, found.files[1].gone), (20, Some(1012.0)));
        assert!(found.files[2].read_elsewhere && found.files[3].appended);
        assert_eq!(found.files[4].writers.len(), 2);
    }

    #[test]
    fn any_text_is_taken() {
        for text in
            ["watch 2 x n /p\n1 2\n", "watch 2 0 n /p\nnan 1 open 1 1 0 /p/a\n1 1 did 1\n", "\n"]
        {
            of_texts(&[text.to_owned()]);
        }
    }
}
