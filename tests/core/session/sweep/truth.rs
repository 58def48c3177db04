//! What each name has had, and what a run that comes later may find.

use std::collections::{BTreeMap, BTreeSet};

use super::script::{Op, Script, short};

pub type Tree = BTreeMap<String, Vec<u8>>;

/// What a name had at some time; `None`: it was not there.
type Held = Option<Vec<u8>>;

pub struct Truth {
    /// What is there after each step.
    states: Vec<Tree>,
    /// What each name was given in each step, in order.
    changes: Vec<(usize, String, Held)>,
}

impl Truth {
    pub fn of(script: &Script) -> Truth {
        let (mut tree, mut states, mut changes) = (Tree::new(), Vec::new(), Vec::new());
        for (at, step) in script.0.iter().enumerate() {
            for op in step.ops.iter().flatten() {
                let changed = apply(op, &mut tree);
                changes.extend(changed.into_iter().map(|(name, held)| (at, name, held)));
            }
            states.push(tree.clone());
        }
        Truth { states, changes }
    }

    /// No rank has begun more than so many steps.
    pub fn cut_behind(&mut self, begun: usize) {
        self.states.truncate(begun);
        self.changes.retain(|(step, ..)| *step < begun);
    }

    fn last(&self) -> &Tree {
        self.states.last().expect("some step was begun")
    }

    /// That the program does without SCR what is thought here.
    pub fn check_model(&self, found: &Tree) -> Result<(), String> {
        self.same(found, "without SCR, against the model")
    }

    /// Everything as the program has left it.
    pub fn same(&self, found: &Tree, what: &str) -> Result<(), String> {
        match self.last() == found {
            true => Ok(()),
            false => Err(format!("{what}: {}", difference(self.last(), found))),
        }
    }

    /// All was settled when the ranks were killed: everything is as the program has left it, but
    /// for what [`Truth::waits`] says.
    pub fn after_calm(&self, found: &Tree) -> Result<(), String> {
        let last = self.last();
        let names: BTreeSet<&String> = last.keys().chain(found.keys()).collect();
        let mut differ = names.into_iter().filter(|name| last.get(*name) != found.get(*name));
        // A newer checkpoint with an id is sealed, if it is begun. Without ids it may be on the
        // prefix alone, and nothing says that it is whole.
        let enough = |name: &str| if series(name) == Some(1) { 1 } else { 2 };
        let waits = |name: &String| self.waits(name, found.get(name), enough(name));
        match differ.all(|name| waits(name) || self.floats(name, found)) {
            true => Ok(()),
            false => Err(format!("after a calm end: {}", difference(last, found))),
        }
    }

    /// Tells whether a file that the program has deleted may be there all the same: it was part of
    /// a checkpoint, and the program has begun less than so many of that series since. Until then
    /// nothing else may be left to go on from.
    fn waits(&self, name: &str, held: Option<&Vec<u8>>, enough: usize) -> bool {
        self.waited(name, held, enough, self.states.len())
    }

    /// Does so for the time before the step `until`.
    fn waited(&self, name: &str, held: Option<&Vec<u8>>, enough: usize, until: usize) -> bool {
        let Some(series) = series(name).filter(|_| held.is_some()) else { return false };
        let mut changes = self.changes.iter().filter(|(at, ..)| *at < until);
        let last = changes.clone().rfind(|(_, changed, _)| changed == name);
        let Some((step, _, None)) = last else { return false };
        let before = step.checked_sub(1).and_then(|before| self.states[before].get(name));
        let newer = changes.by_ref().filter(|(at, changed, held)| {
            at > step && held.is_some() && self::series(changed) == Some(series)
        });
        let newer: BTreeSet<usize> = newer.map(|(at, _, _)| *at).collect();
        before == held && newer.len() < enough
    }

    /// Tells whether a flag or pointer is as it was beside an older checkpoint, and that is back.
    fn is_beside(&self, name: &String, found: &Tree) -> bool {
        let held = found.get(name).filter(|_| series(name).is_none());
        let older = || found.iter().any(|(other, held)| self.waits(other, Some(held), 2));
        held.is_some() && older() && self.states.iter().any(|state| state.get(name) == held)
    }

    /// Tells whether a flag or pointer is as it was at some time since the last checkpoint was
    /// written: what it was given after that belongs to the next one.
    fn floats(&self, name: &str, found: &Tree) -> bool {
        let written = |(_, changed, held): &&(usize, String, Held)| {
            held.is_some() && self::series(changed) == Some(1)
        };
        let last = self.changes.iter().rfind(written).map_or(0, |(step, ..)| *step);
        let since = self.states.get(last..).into_iter().flatten();
        name.starts_with("ckpt/")
            && series(name).is_none()
            && since.into_iter().any(|state| state.get(name) == found.get(name))
    }

    /// Tells whether the program has begun to write the checkpoint of this file anew: without one
    /// that is known to be complete after it, the older one counts until that is done.
    fn is_made_anew(&self, name: &str, from: Option<usize>) -> bool {
        let group = |name: &str| name.rsplit_once('/').map(|(folder, _)| folder.to_string());
        let begun = |(at, changed, held): &(usize, String, Held)| {
            from.is_some_and(|from| *at > from) && held.is_some() && group(changed) == group(name)
        };
        name.starts_with("ckpt/step_") && self.changes.iter().any(begun)
    }

    /// Tells whether the state without an id is all as it was before the last one that was settled:
    /// that may not be known to be complete, and a change of it takes it back. What was deleted of
    /// the one before waits.
    fn is_one_before(&self, found: &Tree, from: Option<usize>) -> bool {
        let of = |tree: &Tree| -> Tree {
            let own = tree.iter().filter(|(name, _)| series(name) == Some(2));
            own.map(|(name, held)| (name.clone(), held.clone())).collect()
        };
        let written = |at: usize| {
            let mut changes = self.changes.iter().filter(|(step, ..)| *step == at);
            changes.any(|(_, name, held)| held.is_some() && series(name) == Some(2))
        };
        let last = from.and_then(|from| (0..=from).rev().find(|at| written(*at)));
        let before = last.and_then(|last| last.checked_sub(1));
        before.is_some_and(|before| {
            let (was, is) = (of(&self.states[before]), of(found));
            let mut differ =
                was.keys().chain(is.keys()).filter(|name| was.get(*name) != is.get(*name));
            differ.all(|name| self.waited(name, is.get(name), 2, before + 1))
        })
    }

    /// Tells whether the prefix may have this when a run has ended that saw `seen`: the same, but
    /// for files whose deletion waits.
    pub fn may_be_left(&self, seen: &Tree, left: &Tree) -> bool {
        let names: BTreeSet<&String> = seen.keys().chain(left.keys()).collect();
        let mut differ = names.into_iter().filter(|name| seen.get(*name) != left.get(*name));
        differ.all(|name| !seen.contains_key(name) && self.waits(name, left.get(name), 2))
    }

    /// The ranks were killed at any time: each name has what it had when all was settled last, or
    /// what it was given later.
    pub fn possible(&self, found: &Tree, calm: usize) -> Result<(), String> {
        let from = calm.checked_sub(1);
        let settled = from.map(|at| &self.states[at]);
        let mut wrong = Vec::new();
        let names: BTreeSet<&String> =
            self.changes.iter().map(|(_, name, _)| name).chain(found.keys()).collect();
        for name in names {
            let held = found.get(name).cloned();
            let before = settled.and_then(|state| state.get(name)).cloned();
            let mut later = self
                .changes
                .iter()
                .filter(|(at, changed, _)| changed == name && from.is_none_or(|from| *at > from));
            let known = held == before
                || later.any(|(_, _, given)| is_begin(held.as_ref(), given.as_ref()))
                || self.waits(name, held.as_ref(), 2)
                || self.waited(name, held.as_ref(), 2, calm)
                || self.is_beside(name, found)
                || self.floats(name, found)
                || (held.is_none() && self.is_made_anew(name, from))
                || (series(name) == Some(2) && self.is_one_before(found, from));
            if !known {
                let text = held.map_or("nothing".to_string(), |bytes| short(&bytes));
                let was = before.map_or("nothing".to_string(), |bytes| short(&bytes));
                wrong.push(format!("{name}: {text}; when all was settled {was}"));
            }
        }
        match wrong.is_empty() {
            true => self.rotated(found, from),
            false => Err(format!("what cannot be: {wrong:#?}")),
        }
    }

    /// The newest state without an id that was settled is there under one of its names, or a newer
    /// one is.
    fn rotated(&self, found: &Tree, from: Option<usize>) -> Result<(), String> {
        let Some(from) = from else { return Ok(()) };
        for (name, bytes) in self.states[from].iter().filter(|(name, _)| is_current(name)) {
            let newer = self.changes.iter().filter(|(at, changed, held)| {
                *at > from && changed == name && held.as_ref().is_some()
            });
            let goals: Vec<&Vec<u8>> =
                newer.filter_map(|(_, _, held)| held.as_ref()).chain([bytes]).collect();
            let stem = |other: &&String| other.starts_with(name.as_str());
            let has = |other: &String| goals.contains(&&found[other]);
            let deleted = self
                .changes
                .iter()
                .any(|(at, changed, held)| *at > from && changed == name && held.is_none());
            let is_older = || self.is_one_before(found, Some(from));
            if !found.keys().filter(stem).any(has) && !deleted && !is_older() {
                return Err(format!("no name has {name}: {}", short(bytes)));
            }
        }
        Ok(())
    }
}

/// Whether a rank that was killed may have come so far: it writes in pieces.
fn is_begin(held: Option<&Vec<u8>>, given: Option<&Vec<u8>>) -> bool {
    match (held, given) {
        (Some(held), Some(given)) => given.starts_with(held),
        (held, given) => held == given,
    }
}

fn is_current(name: &str) -> bool {
    name.starts_with("run/") && !name.contains(".bak") && !name.ends_with(".tmp")
}

/// The series of a file whose deletion waits for the next checkpoint: not that of a flag or pointer
/// beside files with an id.
fn series(name: &str) -> Option<u8> {
    match name.split_once('/')?.0 {
        "ckpt" if name.starts_with("ckpt/step_") => Some(1),
        "run" => Some(2),
        _ => None,
    }
}

/// What a call changes, in order.
fn apply(op: &Op, tree: &mut Tree) -> Vec<(String, Held)> {
    match op {
        Op::Write(name, bytes) | Op::Part(name, bytes) => {
            tree.insert(name.clone(), bytes.clone());
            vec![(name.clone(), Some(bytes.clone()))]
        }
        Op::Append(name, text) => {
            let held = tree.entry(name.clone()).or_default();
            held.extend_from_slice(text.as_bytes());
            vec![(name.clone(), Some(held.clone()))]
        }
        Op::Unlink(name) => {
            tree.remove(name);
            vec![(name.clone(), None)]
        }
        Op::Rename(from, to) => {
            let Some(bytes) = tree.remove(from) else { return Vec::new() };
            tree.insert(to.clone(), bytes.clone());
            vec![(to.clone(), Some(bytes)), (from.clone(), None)]
        }
        Op::Mkdir(_) | Op::Rmdir(_) | Op::Read(_) | Op::List(_) => Vec::new(),
    }
}

/// What one has and the other has not, or otherwise.
pub fn difference(want: &Tree, got: &Tree) -> String {
    let names: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
    let say = |held: Option<&Vec<u8>>| held.map_or("nothing".to_string(), |bytes| short(bytes));
    let differ = names.into_iter().filter(|name| want.get(*name) != got.get(*name));
    let lines = differ.map(|name| {
        format!("{name}: {} is to be there, {} is", say(want.get(name)), say(got.get(name)))
    });
    lines.collect::<Vec<_>>().join("\n    ")
}
