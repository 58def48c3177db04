//! Series of patterns, and what is left alone and why.

use std::collections::{BTreeMap, BTreeSet};

use super::shapes::{NameShape, shapes};
use super::watched::{FileKind, Watched, Written};
use crate::machine::Why;
use crate::patterns::{PatternConfig, PatternText, SeriesSet};

/// A larger file does not say which checkpoint is the newest.
const POINTER_MAX: u64 = 64 << 10;
/// From so many patterns below one directory on, one stands for all that is in it.
const BELOW_MIN: usize = 4;

const NO_NUMBER: &str = "no number in its names tells which checkpoint it is of";
const LOST: &str = "a process that the program starts removes or changes it before the next one is \
                    written, and SCR does not see that";

/// What a watched run suggests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposal {
    /// Number of ranks that were watched.
    pub ranks: usize,
    /// Collectives that they passed, at most.
    pub syncs: u64,
    /// Some rank did more than could be kept.
    pub cut: bool,
    /// The series with the most bytes comes first.
    pub series: Vec<ProposedSeries>,
    /// Kinds of names that are left alone.
    pub skipped: Vec<Skipped>,
}

/// Patterns whose files belong together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProposedSeries {
    /// The patterns.
    pub patterns: Vec<ProposedPattern>,
    /// Datasets of it in the run.
    pub datasets: usize,
    /// Bytes that were written.
    pub bytes: u64,
    /// What would be cached of that: not the first dataset, which SCR watches, and not files with
    /// several writers or readers elsewhere.
    pub cached_bytes: u64,
    /// What there is to know.
    pub notes: Vec<String>,
}

/// One pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProposedPattern {
    /// As in the config file.
    pub text: String,
    /// Files that it matched, each writing counted.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// One of their names.
    pub example: String,
    /// The name of that file before it was renamed.
    pub temporary: Option<String>,
    /// It says which checkpoint is the newest.
    pub pointer: bool,
}

/// Names of a kind that seem to be no checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Their names as a pattern.
    pub text: String,
    /// How many.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Why.
    pub reason: &'static str,
}

impl Proposal {
    /// Gives the lines of a config file.
    pub fn config(&self) -> String {
        let mut text = String::new();
        for (at, series) in self.series.iter().enumerate() {
            text += &format!("{}={}\n", parameter(at), series.list());
        }
        text
    }
}

impl ProposedSeries {
    fn list(&self) -> String {
        let all: Vec<&str> = self.patterns.iter().map(|one| one.text.as_str()).collect();
        all.join(", ")
    }
}

fn parameter(at: usize) -> String {
    match at {
        0 => "SCR_CHECKPOINT_PATTERN".to_owned(),
        at => format!("SCR_CHECKPOINT_PATTERN_{}", at + 1),
    }
}

/// Shapes that belong together; times of datasets are collectives that were passed by then.
#[derive(Default)]
struct Group {
    shapes: Vec<NameShape>,
    /// By id, or by generation.
    begun: Vec<u64>,
    ids: BTreeMap<String, u64>,
    pointers: BTreeSet<String>,
}

pub(super) fn propose(watched: &Watched) -> Proposal {
    let files = &watched.files;
    let (mut groups, mut loose, mut skipped) = (Vec::<Group>::new(), Vec::new(), Vec::new());
    let mut aside = Vec::<Group>::new();
    for shape in shapes(files, watched.syncs) {
        match reason_to_skip(files, &shape) {
            Some(reason) => {
                skipped.push(skip(files, &shape, reason));
                if [NO_NUMBER, LOST].contains(&reason) {
                    let begun = checkpoints(files, &shape);
                    aside.push(Group { shapes: vec![shape], begun, ..Group::default() });
                }
            }
            None if shape.files.iter().any(|(_, id)| id.is_some()) => {
                add(files, &mut groups, shape)
            }
            None => loose.push(shape),
        }
    }
    let mut generations = Vec::<Group>::new();
    loose.into_iter().for_each(|shape| add_generations(files, &mut generations, shape));
    let mut others = Vec::<Group>::new();
    for group in generations {
        match pointed_at(files, &groups, &group) {
            Some(at) => {
                let names = group.shapes.iter().map(|one| one.pattern.clone());
                groups[at].pointers.extend(names);
                groups[at].shapes.extend(group.shapes);
            }
            None if pointed_at(files, &aside, &group).is_some() => {
                let of = |shape| skip(files, shape, "it seems to name files that are left alone");
                skipped.extend(group.shapes.iter().map(of));
            }
            None => others.push(group),
        }
    }
    groups.extend(others);
    groups.iter_mut().for_each(|group| join_below(files, group));
    let mut series: Vec<ProposedSeries> =
        groups.iter().map(|group| describe(files, group)).collect();
    series.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    let mut proposal =
        Proposal { ranks: watched.ranks, syncs: watched.syncs, cut: watched.cut, series, skipped };
    try_out(&mut proposal);
    proposal
}

fn reason_to_skip(files: &[Written], shape: &NameShape) -> Option<&'static str> {
    let all = || shape.files.iter().map(|(at, _)| &files[*at]);
    if shape.ids().len() < 2 && all().any(|file| file.appended) {
        return Some("it is appended to, like a log");
    }
    if shape.is_single(files) && !all().any(|file| file.kind == FileKind::Kept) {
        return Some(match shape.goes_on {
            true => NO_NUMBER,
            false => "it was written once: watch a run with two checkpoints or more",
        });
    }
    let next = |one: &Written| {
        let later = all().filter(|file| file.rank == one.rank && file.syncs > one.syncs);
        later.map(|file| file.begun).fold(f64::INFINITY, f64::min)
    };
    let is_brief = |file: &Written| {
        let end = file.gone.or(file.lost).filter(|_| file.kind != FileKind::Link);
        end.is_some_and(|end| end <= next(file))
    };
    all().all(is_brief).then(|| match all().any(|file| file.lost.is_some()) {
        true => LOST,
        false => "it is deleted before the next one is written",
    })
}

fn skip(files: &[Written], shape: &NameShape, reason: &'static str) -> Skipped {
    let bytes = shape.files.iter().map(|(at, _)| files[*at].bytes).sum();
    Skipped { text: shape.pattern.clone(), files: shape.files.len(), bytes, reason }
}

/// Shapes with the same ids belong together; the last one may not have been reached by all.
fn add(files: &[Written], groups: &mut Vec<Group>, shape: NameShape) {
    let mut ids: BTreeMap<String, u64> = BTreeMap::new();
    for (at, id) in &shape.files {
        id.iter().for_each(|id| earlier(&mut ids, id, files[*at].syncs));
    }
    let fits = |group: &Group| {
        let differ = group.ids.keys().filter(|id| !ids.contains_key(*id)).count()
            + ids.keys().filter(|id| !group.ids.contains_key(*id)).count();
        differ <= usize::from(ids.len() > 2)
    };
    let at = groups.iter().position(fits).unwrap_or_else(|| {
        groups.push(Group::default());
        groups.len() - 1
    });
    let group = &mut groups[at];
    ids.iter().for_each(|(id, syncs)| earlier(&mut group.ids, id, *syncs));
    group.begun = group.ids.values().copied().collect();
    group.begun.sort_unstable();
    group.shapes.push(shape);
}

fn earlier(ids: &mut BTreeMap<String, u64>, id: &str, syncs: u64) {
    let known = ids.entry(id.to_owned()).or_insert(syncs);
    *known = syncs.min(*known);
}

/// Collectives that were passed before each generation of a shape without ids.
fn generations(files: &[Written], shape: &NameShape) -> Vec<u64> {
    let first = shape.files.first().map(|(at, _)| files[*at].name.as_str());
    let of_first = shape.files.iter().map(|(at, _)| &files[*at]);
    of_first.filter(|file| Some(file.name.as_str()) == first).map(|file| file.syncs).collect()
}

/// Collectives that a rank had passed when it began each checkpoint.
fn checkpoints(files: &[Written], shape: &NameShape) -> Vec<u64> {
    let first = shape.files.first().map(|(at, _)| files[*at].rank);
    let own = shape.files.iter().filter(|(at, _)| Some(files[*at].rank) == first);
    let mut begun: Vec<(&Option<String>, u64)> =
        own.map(|(at, id)| (id, files[*at].syncs)).collect();
    begun.dedup_by(|later, one| one.0.is_some() && later.0 == one.0);
    begun.into_iter().map(|(_, syncs)| syncs).collect()
}

/// The series whose newest dataset these files without ids name: each is small, of one name and one
/// rank, and written once for each dataset.
fn pointed_at(files: &[Written], groups: &[Group], own: &Group) -> Option<usize> {
    let is_pointer = |shape: &NameShape| {
        let all = || shape.files.iter().map(|(at, _)| &files[*at]);
        let first = all().next();
        all().all(|file| {
            file.bytes <= POINTER_MAX
                && first.is_some_and(|first| (first.rank, &first.name) == (file.rank, &file.name))
        })
    };
    let goes_along = |group: &Group| {
        let ends = group.begun.iter().skip(1).copied().chain([u64::MAX]);
        let windows: Vec<(u64, u64)> = group.begun.iter().copied().zip(ends).collect();
        let within =
            |from: u64, to: u64| own.begun.iter().filter(|time| (from..to).contains(*time)).count();
        own.begun.len().abs_diff(windows.len()) <= 1
            && windows.iter().all(|(from, to)| within(*from, *to) <= 1)
    };
    let directory = |shape: &NameShape| shape.pattern.split('/').next().map(str::to_owned);
    let place = own.shapes.first().and_then(directory);
    let near = |group: &Group| group.shapes.iter().any(|one| directory(one) == place);
    let pointers = own.shapes.iter().all(is_pointer);
    let fits = |at: &usize| pointers && goes_along(&groups[*at]);
    let nearest = (0..groups.len()).filter(fits).find(|at| near(&groups[*at]));
    nearest.or_else(|| (0..groups.len()).find(fits))
}

/// Shapes without ids that are written anew together are one series.
fn add_generations(files: &[Written], groups: &mut Vec<Group>, shape: NameShape) {
    let written = generations(files, &shape);
    match groups.iter_mut().find(|group| together(&written, &group.begun)) {
        Some(group) => group.shapes.push(shape),
        None => groups.push(Group { shapes: vec![shape], begun: written, ..Group::default() }),
    }
}

/// Times are in collectives. Files with names in turn lie half a period apart, and not all ranks
/// have passed as many collectives when they open a file.
fn together(one: &[u64], other: &[u64]) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let mut gaps: Vec<u64> = long.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(0).max(1);
    long.len() - short.len() <= 1
        && short.iter().all(|a| long.iter().any(|b| 4 * a.abs_diff(*b) < usual))
}

fn join_below(files: &[Written], group: &mut Group) {
    let heads: BTreeSet<String> = group.shapes.iter().filter_map(|one| head(group, one)).collect();
    for head in heads {
        let below = |one: &NameShape| one.pattern.starts_with(&format!("{head}/"));
        let inside = || group.shapes.iter().filter(|one| below(one));
        let count = inside().count();
        let own: BTreeSet<usize> = inside().flat_map(|one| &one.files).map(|(at, _)| *at).collect();
        let joined = format!("{head}/**");
        let foreign = |set: &SeriesSet| {
            let mut others = (0..files.len()).filter(|at| !own.contains(at));
            others.any(|at| set.match_path(&files[at].name).is_some())
        };
        if count < BELOW_MIN
            || compiled(std::slice::from_ref(&joined)).is_none_or(|set| foreign(&set))
        {
            continue;
        }
        let (inside, outside): (Vec<NameShape>, Vec<NameShape>) =
            group.shapes.drain(..).partition(|one| below(one));
        group.shapes = outside;
        let files = inside.into_iter().flat_map(|one| one.files).collect();
        group.shapes.push(NameShape { pattern: joined, files, goes_on: false });
    }
}

/// The directory that may become one pattern: the one with the id in its name, or without ids that
/// of the file.
fn head(group: &Group, shape: &NameShape) -> Option<String> {
    let end = match shape.pattern.rfind("{id}").filter(|_| !group.ids.is_empty()) {
        Some(at) => at + shape.pattern[at..].find('/')?,
        None if group.ids.is_empty() => shape.pattern.rfind('/')?,
        None => return None,
    };
    Some(shape.pattern[..end].to_owned())
}

fn describe(files: &[Written], group: &Group) -> ProposedSeries {
    let pattern = |shape: &NameShape| {
        let all = || shape.files.iter().map(|(at, _)| &files[*at]);
        let example = all().next_back().cloned().unwrap_or_default();
        ProposedPattern {
            text: shape.pattern.clone(),
            files: shape.files.len(),
            bytes: all().map(|file| file.bytes).sum(),
            example: example.name,
            temporary: example.temporary,
            pointer: group.pointers.contains(&shape.pattern),
        }
    };
    let mut patterns: Vec<ProposedPattern> = group.shapes.iter().map(pattern).collect();
    patterns.sort_by_key(|one| (one.pointer, std::cmp::Reverse(one.bytes)));
    let all = || group.shapes.iter().flat_map(|one| &one.files).map(|(at, _)| &files[*at]);
    let stays = |file: &&Written| file.why.is_some() || file.read_elsewhere;
    let second = group.begun.get(1).copied().unwrap_or(u64::MAX);
    // What is kept under a second name was written under the first.
    let written = || all().filter(|file| file.kind != FileKind::Kept);
    let cached = written().filter(|file| file.syncs >= second && !stays(file));
    let count = |of: fn(&Written) -> bool| all().filter(|file| of(file)).count();
    let notes = [
        (
            count(|file| file.writers.len() > 1 && file.why.is_none()),
            "files have several writers on one node, and are cached where their ranks are on one",
        ),
        (
            count(|file| file.read_elsewhere),
            "files are read by another rank during the run: if its \
          node is another one, they stay on the prefix",
        ),
        (count(|file| file.reopened), "files are opened again and changed: they are sealed anew"),
    ];
    let notes = notes.iter().filter(|(count, _)| *count > 0);
    let mut whys: BTreeMap<Why, usize> = BTreeMap::new();
    all().filter_map(|file| file.why).for_each(|why| *whys.entry(why).or_default() += 1);
    let of_nodes = whys.iter().map(|(why, count)| {
        let (text, help) = (why.text(), why.help());
        format!("{count} files stay on the prefix, as part of the checkpoint: {text}. {help}")
    });
    ProposedSeries {
        bytes: written().map(|file| file.bytes).sum(),
        patterns,
        datasets: group.ids.len().max(group.begun.len()),
        cached_bytes: cached.map(|file| file.bytes).sum(),
        notes: of_nodes.chain(notes.map(|(count, what)| format!("{count} {what}"))).collect(),
    }
}

fn compiled(patterns: &[String]) -> Option<SeriesSet> {
    let text = |(at, text): (usize, &String)| PatternText {
        name: parameter(at),
        place: "the proposal".to_owned(),
        text: text.clone(),
    };
    let checkpoint = patterns.iter().enumerate().map(text).collect();
    let prefix = std::path::PathBuf::from("/");
    let token = ":".to_owned();
    SeriesSet::new(&PatternConfig { prefix, checkpoint, token, ..PatternConfig::default() }).ok()
}

/// Matches the examples as a run would, and notes names that another series takes.
fn try_out(proposal: &mut Proposal) {
    let lists: Vec<String> = proposal.series.iter().map(ProposedSeries::list).collect();
    let Some(set) = compiled(&lists) else { return };
    for (at, series) in proposal.series.iter_mut().enumerate() {
        for pattern in &series.patterns {
            let matched = set.match_path(&pattern.example);
            if matched.is_none_or(|found| found.series != at) {
                let name = &pattern.example;
                series.notes.push(format!("{name} is matched by a pattern of another series"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::watched::{of_texts, tests::rank};
    use super::*;

    /// Four ranks take three checkpoints; `names`: what each writes at a step, a name to rename
    /// from behind a `<`.
    fn run(names: &dyn Fn(usize, usize) -> Vec<(String, usize)>) -> Proposal {
        let text = |of: usize| {
            let mut lines = Vec::new();
            for step in [10, 20, 30] {
                let mut all = Vec::new();
                for (at, (name, bytes)) in names(step, of).iter().enumerate() {
                    let (to, from) = name.split_once('<').unwrap_or((name, name));
                    all.push(format!("open {at}{step} 577 0 /p/{from}"));
                    all.push(format!("close {at}{step} {bytes} 9"));
                    if to != from {
                        all.push(format!("rename /p/{from}\t/p/{to}"));
                    }
                }
                all.resize(20, "-".to_owned());
                lines.extend(all);
            }
            rank(of, &lines.iter().map(String::as_str).collect::<Vec<_>>())
        };
        propose(&of_texts(&(0..4).map(text).collect::<Vec<_>>()).expect("a run"))
    }

    #[test]
    fn files_of_a_step_are_one_series_with_its_pointer() {
        let found = run(&|step, rank| {
            let mut all = vec![(format!("ckpt/s_{step}/r_{rank}.dat"), 1_000_000)];
            if rank == 0 {
                all.push((format!("ckpt/s_{step}/header"), 99));
                all.push(("ckpt/latest<ckpt/latest.new".to_owned(), 3));
            }
            if (step, rank) == (10, 0) {
                all.push(("once".to_owned(), 7));
            }
            all
        });
        let want = "SCR_CHECKPOINT_PATTERN=\
                    ckpt/s_{id}/r_{rank}.dat, ckpt/s_{id}/header, ckpt/latest\n";
        assert!(found.config().starts_with(want), "{}", found.config());
        let series = &found.series[0];
        assert_eq!((series.datasets, series.cached_bytes), (3, 8_000_000 + 2 * 102));
        assert!(series.patterns[2].pointer && series.notes.is_empty(), "{series:?}");
        assert_eq!(series.patterns[2].temporary.as_deref(), Some("ckpt/latest.new"));
        assert_eq!(found.skipped[0].text, "once");
    }

    #[test]
    fn names_in_turn_are_not_written_together() {
        let times = [10, 30, 50];
        for (other, want) in [
            ([10, 30, 50], true),
            ([13, 33, 54], true),
            ([19, 39, 59], false),
            ([11, 20, 51], false),
        ] {
            assert_eq!(together(&times, &other), want, "{other:?}");
        }
        assert!(together(&times, &[30, 50]) && !together(&times, &[20, 40]));
        assert!(!together(&times, &[50]) && together(&[], &[4]));
    }

    #[test]
    fn names_in_turn_are_series_without_id() {
        let found = run(&|step, rank| {
            let name = if step == 20 { "b" } else { "a" };
            vec![(format!("{name}.{rank}.rst"), 100)]
        });
        // b was written once: a longer run would tell.
        assert_eq!(found.config(), "SCR_CHECKPOINT_PATTERN=a.{rank}.rst\n");
        assert_eq!(found.skipped[0].text, "b.{rank}.rst");
    }

    #[test]
    fn many_files_of_a_directory_become_one_pattern() {
        let found = run(&|step, rank| {
            let name = |field: &&str| (format!("p{rank}/0.{step}5/{field}"), 10);
            ["U", "p", "phi", "T"].iter().map(name).collect()
        });
        assert_eq!(found.config(), "SCR_CHECKPOINT_PATTERN=p{rank}/{id}/**\n");
        assert_eq!(found.series[0].patterns[0].files, 48);
    }
}
