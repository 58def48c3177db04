//! Programs without ids that keep their last checkpoints: each time `s.1` becomes `s.2`, `s`
//! becomes `s.1`, by renames or as copies, and `s` is written. Each such checkpoint is a dataset of
//! its own, with all names as the program left them, and is complete like any other.

use std::collections::{BTreeMap, BTreeSet};

use scr_core::machine::{
    DatasetKey, DatasetState, Deletion, FileRef, Intent, Placed, Placement, SeriesConfig,
};

use super::machine::Ranks;

/// How a program keeps and writes its checkpoints.
#[derive(Debug, Clone, Copy)]
struct Style {
    names: usize,
    /// Checkpoints before it begins to move names.
    plain: u64,
    learn: bool,
    /// It removes the oldest one before.
    unlinks: bool,
    copies: bool,
    /// A sync point between the moves and the writing.
    syncs: bool,
    written: Written,
    /// Time between checkpoints.
    every_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Written {
    InPlace,
    /// Under a temporary name that matches, too; with a sync point before it gets its own.
    Aside {
        syncs: bool,
    },
}

const PLAIN: Style = Style {
    names: 2,
    plain: 2,
    learn: false,
    unlinks: false,
    copies: false,
    syncs: false,
    written: Written::InPlace,
    every_ms: 400,
};

type Files = BTreeMap<String, u64>;

/// One rank alone, what its program sees, and what lies in each dataset.
struct Program {
    ranks: Ranks,
    sees: Files,
    holds: BTreeMap<DatasetKey, Files>,
    /// What lies on the prefix, where each file is there just once, and the datasets it is part of.
    prefix: Files,
    on_prefix: BTreeSet<DatasetKey>,
    /// Flushes whose files are on the prefix.
    flushes: usize,
    /// What it saw at the end of each checkpoint, and after each of its doings.
    left: Vec<Files>,
    moments: Vec<Files>,
}

fn file(name: &str) -> FileRef {
    let name = name.to_string();
    FileRef { series: 0, id: None, masked: name.clone(), name, temporary: false }
}

fn kept(at: usize) -> String {
    if at == 0 { "s".to_string() } else { format!("s.{at}") }
}

fn without_temporary(files: &Files) -> Files {
    let mut files = files.clone();
    files.remove("s.new");
    files
}

impl Program {
    fn new(learn: bool, flush_every: u64) -> Self {
        let config = SeriesConfig { learn, flush_every, ..SeriesConfig::new("s", false) };
        let ranks = Ranks::of(1, config);
        let (sees, holds, prefix) = (Files::new(), BTreeMap::new(), Files::new());
        let (on_prefix, left, moments) = (BTreeSet::new(), Vec::new(), Vec::new());
        Program { ranks, sees, holds, prefix, on_prefix, flushes: 0, left, moments }
    }

    fn store(&mut self, placed: &Placed, name: &str, content: u64) {
        let key = placed.key.clone();
        let files = match placed.is_on_prefix() {
            true => &mut self.prefix,
            false => self.holds.entry(key.clone()).or_default(),
        };
        files.insert(name.to_string(), content);
        self.on_prefix.extend(placed.is_on_prefix().then_some(key));
        self.sees.insert(name.to_string(), content);
        self.moments.push(self.sees.clone());
    }

    fn write(&mut self, name: &str, content: u64) {
        let now = self.ranks.now_ms;
        let intent = Intent { creates: !self.sees.contains_key(name), ..Intent::REWRITE };
        let machine = &mut self.ranks.machines[0];
        let placement = machine.write_open(&file(name), intent, now);
        let Placement::Dataset(placed) = placement else { panic!("not ours: {placement:?}") };
        machine.write_closed(&placed.key, name, 7, now);
        self.store(&placed, name, content);
    }

    fn took_away(&mut self, name: &str, deletion: Deletion) {
        if deletion != Deletion::Deferred
            && let Some(files) = self.holds.values_mut().rev().find(|it| it.contains_key(name))
        {
            files.remove(name);
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        let Some(content) = self.sees.remove(from) else { return };
        let (now, old, new) = (self.ranks.now_ms, file(from), file(to));
        let machine = &mut self.ranks.machines[0];
        let renamed = machine.renamed(Some(&old), Some(&new), 7, None, now);
        let Placement::Dataset(placed) = renamed.to else { panic!("not ours: {renamed:?}") };
        self.took_away(from, renamed.from.unwrap());
        // What an older one has on the prefix stays there, unless the file moves on there itself.
        if placed.is_on_prefix() || renamed.from != Some(Deletion::Deferred) {
            self.prefix.retain(|name, there| name != from || *there != content);
        }
        self.store(&placed, to, content);
    }

    fn unlink(&mut self, name: &str) {
        if self.sees.remove(name).is_some() {
            let deletion = self.ranks.machines[0].deleted(&file(name), self.ranks.now_ms);
            self.took_away(name, deletion);
        }
    }

    fn checkpoint(&mut self, style: Style, number: u64) {
        if number > style.plain {
            if style.unlinks {
                self.unlink(&kept(style.names - 1));
            }
            for at in (1..style.names).rev() {
                let (from, to) = (kept(at - 1), kept(at));
                match self.sees.get(&from).copied() {
                    Some(content) if style.copies => self.write(&to, content),
                    _ => self.rename(&from, &to),
                }
            }
            if style.syncs {
                self.sync(1);
            }
        }
        match style.written {
            Written::InPlace => self.write("s", number),
            Written::Aside { syncs } => {
                self.write("s.new", number);
                if syncs {
                    self.sync(1);
                }
                self.rename("s.new", "s");
            }
        }
        self.left.push(self.sees.clone());
        for _ in 0..5 {
            self.sync(style.every_ms / 5);
        }
    }

    /// A sync point, and what it has flushed is on the prefix.
    fn sync(&mut self, ms: u64) {
        self.ranks.sync(ms);
        let machine = &self.ranks.machines[0];
        for (key, names) in std::mem::take(&mut self.ranks.along) {
            let names = names.into_iter().map(|name| (name.clone(), self.holds[&key][&name]));
            self.prefix.extend(names);
        }
        for key in &self.ranks.flushed[self.flushes..] {
            let files = self.holds.get(key).into_iter().flatten();
            let written = files.filter(|(name, _)| !machine.is_left_out(key, name));
            self.prefix.extend(written.map(|(name, content)| (name.clone(), *content)));
        }
        self.flushes = self.ranks.flushed.len();
    }

    /// What a restart from the datasets up to `last` shows.
    fn offers(&self, last: &DatasetKey) -> Files {
        let mut shown = self.prefix.clone();
        let machine = &self.ranks.machines[0];
        for dataset in machine.datasets(0) {
            let files = machine.seal_files(&dataset.key).into_iter().filter(|file| !file.on_prefix);
            let held = |name: &str| self.holds[&dataset.key][name];
            shown.extend(files.map(|file| (file.name.clone(), held(&file.name))));
            if dataset.key == *last {
                break;
            }
        }
        without_temporary(&shown)
    }

    fn newest(&self, states: &[DatasetState]) -> Option<DatasetKey> {
        let mut datasets = self.ranks.machines[0].datasets(0).iter().rev();
        datasets.find(|one| states.contains(&one.state)).map(|one| one.key.clone())
    }
}

/// What is wrong with how the checkpoints of such a program fare.
fn faults(style: Style) -> Option<String> {
    const COUNT: u64 = 9;
    let mut program = Program::new(style.learn, 1);
    let mut generations = BTreeSet::new();
    for number in 1..=COUNT {
        program.checkpoint(style, number);
        let datasets = program.ranks.machines[0].datasets(0);
        let growing = number <= style.plain + style.names as u64 + 1;
        if datasets.len() > 4 + usize::from(growing && style.copies) {
            return Some(format!("{} datasets are in the cache at {number}", datasets.len()));
        }
        generations.extend(datasets.iter().map(|one| one.key.clone()));
        let sealed = program.newest(&[DatasetState::Provisional, DatasetState::Confirmed]);
        let confirmed = program.newest(&[DatasetState::Confirmed]);
        for key in sealed.iter().chain(&confirmed) {
            let shown = program.offers(key);
            let whole = program.left.contains(&shown);
            let of_one =
                |moment: &Files| shown.iter().all(|(name, it)| moment.get(name) == Some(it));
            let shifts = style.copies && (style.learn || growing || style.every_ms < 100);
            let counts = whole || shifts && program.moments.iter().any(of_one);
            if !counts {
                let left = &program.left;
                return Some(format!("at {number}, {key:?} shows {shown:?} of {left:?}"));
            }
            let late = number - shown.values().max().unwrap_or(&0);
            let late_most = u64::from(growing && Some(key) == confirmed.as_ref());
            if late > late_most && style.every_ms > 100 {
                return Some(format!("at {number}, {key:?} shows {shown:?}: {late} late"));
            }
        }
    }
    program.ranks.end();
    let there =
        |key: &&DatasetKey| program.ranks.flushed.contains(key) || program.on_prefix.contains(key);
    let unflushed: Vec<_> = generations.iter().filter(|key| !there(key)).collect();
    let few = generations.len() < COUNT as usize && style.every_ms > 100;
    (few || !unflushed.is_empty())
        .then(|| format!("{unflushed:?} are not flushed, of {}", generations.len()))
}

#[test]
fn each_checkpoint_of_a_program_that_rotates_its_files_is_complete() {
    let mut found = Vec::new();
    for names in 2..=4 {
        for plain in 0..=2 {
            for flags in 0..16 {
                for every_ms in [5, 400] {
                    for written in [
                        Written::InPlace,
                        Written::Aside { syncs: false },
                        Written::Aside { syncs: true },
                    ] {
                        let [learn, unlinks, syncs, copies] =
                            [1, 2, 4, 8].map(|bit| flags & bit != 0);
                        let style = Style {
                            names,
                            plain,
                            learn,
                            unlinks,
                            copies,
                            syncs,
                            written,
                            every_ms,
                        };
                        // With a sync point in between nobody can tell what a copy is part of.
                        let between = syncs || written == Written::Aside { syncs: true };
                        if copies && between {
                            continue;
                        }
                        // Before it is known that the series may be cached, nothing is done.
                        if !learn || every_ms > 100 {
                            found.extend(faults(style).map(|fault| (style, fault)));
                        }
                    }
                }
            }
        }
    }
    let lines: Vec<String> = found.iter().map(|(style, it)| format!("{style:?}: {it}")).collect();
    assert!(found.is_empty(), "{}\n{}", found.len(), lines.join("\n"));
}

#[test]
fn what_leaves_the_cache_is_not_flushed_for_names_that_a_newer_one_has() {
    let mut program = Program::new(false, 0);
    for number in 1..=9 {
        program.checkpoint(PLAIN, number);
        assert_eq!(program.ranks.flushed, [], "at {number}");
    }
    program.ranks.end();
    assert_eq!(program.ranks.flushed, [DatasetKey::new(0, "", 8)]);
}

#[test]
fn what_is_due_takes_no_older_one_along_that_it_replaces() {
    let mut program = Program::new(false, 4);
    (1..=9).for_each(|number| program.checkpoint(PLAIN, number));
    let generations: Vec<u64> = program.ranks.flushed.iter().map(|key| key.generation).collect();
    assert_eq!(generations, [3, 7]);
}

#[test]
fn an_older_checkpoint_is_flushed_with_all_names_or_not_at_all() {
    let mut program = Program::new(false, 0);
    let mut looked = 0;
    for number in 1..=6 {
        program.rename("s", "s.1");
        program.write("s", number);
        for _ in 0..40 {
            program.ranks.sync(10);
            let machine = &program.ranks.machines[0];
            let mut confirmed =
                machine.datasets(0).iter().rev().filter(|one| one.state == DatasetState::Confirmed);
            let newest = confirmed.next();
            if let Some(older) = newest.and(confirmed.next()) {
                let left_out = |name| machine.is_left_out(&older.key, name);
                assert_eq!(["s", "s.1"].map(left_out), [false; 2], "{:?} at {number}", older.key);
                looked += 1;
            }
        }
    }
    assert!(looked > 0, "none was kept while a newer one was complete");
}
