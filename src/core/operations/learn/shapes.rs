//! Names of a kind: what each number in them stands for.
//!
//! A number is the writer's if each rank has its own, always; it is the dataset's id if a rank that
//! has gone on to the next one never comes back and passes a collective in between. What else
//! varies is anything, and so is a word that is another one each time (a hash).

use std::collections::{BTreeMap, BTreeSet};

use super::watched::Written;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct NameShape {
    pub pattern: String,
    /// Oldest first: index of the writing, and id.
    pub files: Vec<(usize, Option<String>)>,
    /// Each rank has gone on from one name to the next for good.
    pub goes_on: bool,
}

impl NameShape {
    /// Returns the different ids.
    pub fn ids(&self) -> BTreeSet<&String> {
        self.files.iter().filter_map(|(_, id)| id.as_ref()).collect()
    }

    /// Tells whether no name was written twice, nor under two ids.
    pub fn is_single(&self, files: &[Written]) -> bool {
        let names: BTreeSet<&str> = self.files.iter().map(|(at, _)| &*files[*at].name).collect();
        self.ids().len() < 2 && names.len() == self.files.len()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    Same,
    Rank,
    Id,
    Any,
}

/// A number that varies during less than this part of a run's collectives is that of a part of a
/// checkpoint, and no id.
const SPAN_PART: u64 = 100;
/// A thread that writes beside the program may pass no collective between two checkpoints, in at
/// most this part of them.
const LATE_PART: usize = 3;

pub(super) fn shapes(files: &[Written], syncs: u64) -> Vec<NameShape> {
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        kinds.entry(masked(&file.name)).or_default().push(at);
    }
    let mut looser: BTreeMap<String, Vec<NameShape>> = BTreeMap::new();
    for members in kinds.into_values() {
        let key = loosely_masked(&files[members[0]].name);
        looser.entry(key).or_default().push(shape(files, syncs, members));
    }
    let mut all: Vec<NameShape> =
        looser.into_values().flat_map(|kinds| joined(files, syncs, kinds)).collect();
    all.sort_by_cached_key(|one| one.files.first().map(|(at, _)| masked(&files[*at].name)));
    all
}

/// Makes one of kinds whose names differ in a word, if most of them were there only once, but a
/// rank has gone on from one to the next.
fn joined(files: &[Written], syncs: u64, kinds: Vec<NameShape>) -> Vec<NameShape> {
    let single = kinds.iter().filter(|kind| kind.is_single(files)).count();
    if kinds.len() < 2 || 2 * single < kinds.len() {
        return kinds;
    }
    let mut members: Vec<usize> =
        kinds.iter().flat_map(|kind| &kind.files).map(|(at, _)| *at).collect();
    members.sort_unstable();
    let joined = shape(files, syncs, members);
    match joined.ids().len() > 1 || (joined.goes_on && joined.is_single(files)) {
        true => vec![joined],
        false => kinds,
    }
}

fn shape(files: &[Written], syncs: u64, members: Vec<usize>) -> NameShape {
    let names = aligned(members.iter().map(|at| words(&files[*at].name)).collect());
    let columns = names.first().map_or(0, |first| first.len() / 2);
    let column = |at: usize| names.iter().map(move |parts| parts[2 * at + 1].as_str());
    let of_column = |at: usize| match role(files, &members, &column(at).collect::<Vec<_>>()) {
        Role::Rank | Role::Id if !column(at).all(is_number) => Role::Any,
        role => role,
    };
    let mut roles: Vec<Role> = (0..columns).map(of_column).collect();
    let times = || members.iter().map(|at| files[*at].syncs);
    let span = times().max().unwrap_or(0) - times().min().unwrap_or(0);
    let is_brief = span < syncs / SPAN_PART;
    if is_brief {
        roles.iter_mut().filter(|role| **role == Role::Id).for_each(|role| *role = Role::Any);
    }
    // The first id is the dataset's; another one is it again only if it is always equal.
    if let Some(first) = roles.iter().position(|role| *role == Role::Id) {
        for (at, role) in roles.iter_mut().enumerate().skip(first + 1) {
            if *role == Role::Id && !column(first).eq(column(at)) {
                *role = Role::Any;
            }
        }
    }
    // Of a date only the seconds may vary during the watched run.
    let beside = |at: &usize| names[0][2 * at + 2].len() == 1 && names[0][2 * at + 2] != "/";
    let pairs = || (0..columns.saturating_sub(1)).filter(beside).map(|at| (at, at + 1));
    for (one, other) in pairs().chain(pairs().rev().map(|(one, other)| (other, one))) {
        if roles[one] == Role::Any && roles[other] == Role::Same {
            roles[other] = Role::Any;
        }
    }
    let id = roles.iter().position(|role| *role == Role::Id);
    let pattern = names.first().map(|first| pattern(first, &roles)).unwrap_or_default();
    let id_of = |parts: &Vec<String>| id.map(|at| parts[2 * at + 1].clone());
    let whole: Vec<&str> = members.iter().map(|at| &*files[*at].name).collect();
    let goes_on = !is_brief && role(files, &members, &whole) == Role::Id;
    let files = members.iter().zip(&names).map(|(at, parts)| (*at, id_of(parts))).collect();
    NameShape { pattern, files, goes_on }
}

fn pattern(parts: &[String], roles: &[Role]) -> String {
    let mut text = String::new();
    for (at, part) in parts.iter().enumerate() {
        match roles.get(at / 2).filter(|_| at % 2 == 1) {
            Some(Role::Rank) => text.push_str("{rank}"),
            Some(Role::Id) => text.push_str("{id}"),
            Some(Role::Any) => text.push('*'),
            // What would mean something else in a pattern is matched by any character.
            _ => {
                text.extend(part.chars().map(|c| if "*?[]{},\\'#$".contains(c) { '?' } else { c }))
            }
        }
    }
    text
}

fn role(files: &[Written], members: &[usize], values: &[&str]) -> Role {
    if values.iter().all(|value| *value == values[0]) {
        return Role::Same;
    }
    let mut by_rank: BTreeMap<usize, Vec<(&str, u64)>> = BTreeMap::new();
    for (at, value) in members.iter().zip(values) {
        by_rank.entry(files[*at].rank).or_default().push((value, files[*at].syncs));
    }
    let own = by_rank.values().map(|all| all.iter().map(|(value, _)| *value).collect());
    let own: Vec<BTreeSet<&str>> = own.collect();
    let distinct: BTreeSet<&&str> = own.iter().flatten().collect();
    let one_each = own.iter().all(|values| values.len() == 1);
    if one_each && own.len() > 1 && distinct.len() == own.len() {
        return Role::Rank;
    }
    match by_rank.values().all(|all| goes_on(all)) {
        true => Role::Id,
        false => Role::Any,
    }
}

/// A late thread now and then is no objection; a file in parts is late each time.
fn goes_on(all: &[(&str, u64)]) -> bool {
    let changes: Vec<_> = all.windows(2).filter(|pair| pair[0].0 != pair[1].0).collect();
    let mut left = BTreeSet::new();
    let for_good = changes.iter().all(|pair| left.insert(pair[0].0) && !left.contains(pair[1].0));
    let late = changes.iter().filter(|pair| pair[1].1 <= pair[0].1).count();
    for_good && late * LATE_PART <= changes.len()
}

fn masked(name: &str) -> String {
    parts(name).chunks(2).map(|pair| pair[0].clone()).collect::<Vec<_>>().join("\u{1}")
}

/// What names have in common that differ in words with digits.
fn loosely_masked(name: &str) -> String {
    let mask = |word: String| match word.contains(|c: char| c.is_ascii_digit()) {
        true => "\u{1}".to_owned(),
        false => word,
    };
    words(name).into_iter().map(mask).collect()
}

/// Takes words apart into text and numbers where all names have a word of one kind.
fn aligned(names: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let is_word = |at: usize| at % 2 == 1;
    let alike = |at: usize| {
        let mut masks = names.iter().map(|words| masked(&words[at]));
        let first = masks.next();
        masks.all(|mask| Some(mask) == first)
    };
    let alike: Vec<bool> =
        (0..names.first().map_or(0, Vec::len)).map(|at| !is_word(at) || alike(at)).collect();
    let apart = |words: &Vec<String>| {
        let mut all = vec![String::new()];
        for (at, word) in words.iter().enumerate() {
            let inner = match alike[at] {
                true => parts(word),
                false => vec![String::new(), word.clone(), String::new()],
            };
            let mut inner = inner.into_iter();
            all.last_mut().into_iter().for_each(|text| text.extend(inner.next()));
            all.extend(inner);
        }
        all
    };
    names.iter().map(apart).collect()
}

/// Text and number in turn, text first and last.
fn parts(name: &str) -> Vec<String> {
    split(name, |letter| letter.is_ascii_digit())
}

/// Separators and words in turn, separators first and last.
fn words(name: &str) -> Vec<String> {
    split(name, |letter| letter.is_ascii_alphanumeric())
}

fn split(name: &str, is_inner: fn(char) -> bool) -> Vec<String> {
    let mut parts = vec![String::new()];
    for (at, component) in name.split('/').enumerate() {
        let text = parts.last_mut().filter(|_| at > 0);
        text.into_iter().for_each(|text| text.push('/'));
        if is_number(component) {
            parts.extend([component.to_owned(), String::new()]);
            continue;
        }
        for letter in component.chars() {
            if is_inner(letter) != (parts.len() % 2 == 0) {
                parts.push(String::new());
            }
            parts.last_mut().into_iter().for_each(|part| part.push(letter));
        }
        if parts.len() % 2 == 0 {
            parts.push(String::new());
        }
    }
    parts
}

/// `10`, `0.005`, `1e-05`: a time step's directory.
fn is_number(component: &str) -> bool {
    let digits = component.starts_with(|c: char| c.is_ascii_digit());
    digits && component.parse::<f64>().is_ok_and(f64::is_finite) && !component.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, rank: usize, syncs: u64) -> Written {
        Written { name: name.into(), rank, syncs, ..Written::default() }
    }

    fn patterns(files: &[Written]) -> Vec<String> {
        shapes(files, 30).into_iter().map(|shape| shape.pattern).collect()
    }

    #[test]
    fn numbers_are_told_apart() {
        let mut all = Vec::new();
        for step in [10, 20, 30] {
            for rank in 0..3 {
                all.push(file(&format!("r{rank}/s.{step}.h5"), rank, step));
                all.push(file(&format!("p{rank}/0.{step}5/U"), rank, step));
            }
            // One rank writes two parts a step; names in turn come back.
            all.push(file(&format!("w1.{step}"), 0, step));
            all.push(file(&format!("w2.{step}"), 0, step));
            all.push(file(&format!("turn.{}", step / 10 % 2), 0, step));
        }
        all.push(file("a[1]", 0, 1));
        let want = ["a?1?", "p{rank}/{id}/U", "r{rank}/s.{id}.h5", "turn.*", "w*.{id}"];
        assert_eq!(patterns(&all), want);
    }

    #[test]
    fn a_thread_that_writes_may_be_late() {
        // The last three at the end of the run; or each file is one of two parts.
        let steps = [3, 6, 9, 12, 15, 15, 15].iter().enumerate();
        let late: Vec<_> = steps.map(|(at, syncs)| file(&format!("{at}/U"), 0, *syncs)).collect();
        assert_eq!(patterns(&late), ["{id}/U"]);
        let parts = [3, 3, 6, 6, 9, 9, 12, 12].iter().enumerate();
        let parts: Vec<_> = parts.map(|(at, syncs)| file(&format!("{at}/U"), 0, *syncs)).collect();
        assert_eq!(patterns(&parts), ["*/U"]);
    }

    #[test]
    fn names_come_in_parts() {
        assert_eq!(parts("a1/0.05/b"), ["a", "1", "/", "0.05", "/b"]);
        assert_eq!(parts("12"), ["", "12", ""]);
        assert_eq!(parts("x"), ["x"]);
        assert_eq!(masked("a1.h5"), masked("a22.h6"));
    }
}
