//! Directories that get their final name when all ranks have written into them, and what the
//! program calls them before: learned from one rename, and told to all ranks at the agreement that
//! follows.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::machine::Knowledge;
use crate::patterns::{Match, SeriesSet, Template};

use super::names::parent;

/// Before the text of such a template among those of temporary names.
pub const MARK: &str = "directory ";

/// Entries of a directory about to be renamed that are looked at to learn from it.
pub const LOOKED_AT_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Directories {
    any: AtomicBool,
    templates: RwLock<Vec<(usize, Template)>>,
}

#[derive(Debug)]
pub struct Waiting {
    pub dir: String,
    pub last_dir: String,
    pub last: String,
    /// What the final name matches.
    pub matched: Match,
}

impl Directories {
    pub fn new(known: &[Knowledge]) -> Self {
        let directories = Directories::default();
        for (series, known) in known.iter().enumerate() {
            for text in &known.temporaries {
                directories.add(series, text);
            }
        }
        directories
    }

    /// Returns `false` if the text says nothing new.
    pub fn add(&self, series: usize, text: &str) -> bool {
        let Some(template) = text.strip_prefix(MARK).and_then(Template::from_text) else {
            return false;
        };
        let mut templates = self.templates.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = !templates.iter().any(|(at, known)| (*at, known) == (series, &template));
        if is_new {
            templates.push((series, template));
            self.any.store(true, Ordering::Release);
        }
        is_new
    }

    pub fn waiting(&self, patterns: &SeriesSet, name: &str) -> Option<Waiting> {
        self.find(|series, template| {
            let mut dirs = name.match_indices('/').map(|(at, _)| name.split_at(at));
            dirs.find_map(|(dir, rest)| {
                let last_dir = template.final_name(dir)?;
                let last = format!("{last_dir}{rest}");
                let matched = patterns.match_path(&last)?;
                let ours = matched.series == series && carries_id(&last_dir, &matched);
                let ours = ours && !patterns.ignores(name);
                ours.then(|| Waiting { dir: dir.to_string(), last_dir, last, matched })
            })
        })
    }

    pub fn is_final_of(&self, dir: &str, last: &str) -> bool {
        let found =
            |_, template: &Template| template.final_name(dir).filter(|name| name == last).map(drop);
        self.find(found).is_some()
    }

    fn find<T>(&self, find: impl Fn(usize, &Template) -> Option<T>) -> Option<T> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let templates = self.templates.read().unwrap_or_else(PoisonError::into_inner);
        templates.iter().find_map(|(series, template)| find(*series, template))
    }
}

/// Tells whether the id stands in the last part of the directory's name, so that nothing else is
/// renamed with it.
pub fn carries_id(dir: &str, matched: &Match) -> bool {
    let parent = parent(dir);
    let masked = matched.masked.as_str();
    matched.id.is_some()
        && (parent.is_empty() || masked.strip_prefix(parent).is_some_and(|it| it.starts_with('/')))
        && !masked.strip_prefix(dir).is_some_and(|it| it.starts_with('/'))
}

/// Finds the first file in `dir` or below of which `of` says something; its name begins with
/// `rest`.
pub fn first_below<T>(
    dir: &Path,
    rest: &str,
    left: &mut usize,
    of: &impl Fn(&str) -> Option<T>,
) -> Option<T> {
    for entry in dir.read_dir().ok()?.flatten() {
        *left = left.checked_sub(1)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{rest}/{name}");
        let found = match entry.file_type() {
            Ok(kind) if kind.is_dir() => first_below(&entry.path(), &name, left, of),
            _ => of(&name),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(masked: &str) -> Match {
        Match {
            series: 0,
            id: masked.contains("{id}").then(|| "10".into()),
            rank: None,
            own: false,
            has_id_in_series: true,
            masked: masked.into(),
            temporary: false,
        }
    }

    #[test]
    fn only_the_directory_of_one_checkpoint_waits_for_its_name() {
        for (dir, masked, expected) in [
            ("chk10", "chk{id}/a/x", true),
            ("run/chk10", "run/chk{id}/x", true),
            ("chk10/a", "chk{id}/a/x", false),
            ("run", "run/chk{id}/x", false),
            ("run", "run/x", false),
        ] {
            assert_eq!(carries_id(dir, &matched(masked)), expected, "{dir} {masked}");
        }
    }

    #[test]
    fn what_was_learned_is_read_again() {
        let directories = Directories::default();
        let text = Template::learn("c/s_10.new", "c/s_10").unwrap().to_text();
        assert!(!directories.add(0, &text), "that of a file");
        let text = format!("{MARK}{text}");
        let known = Knowledge { temporaries: vec![text.clone()], ..Knowledge::default() };
        let directories = Directories::new(&[Knowledge::default(), known]);
        assert!(!directories.add(1, &text) && directories.add(0, &text));
        let find = |name| directories.find(|at, known| known.final_name(name).filter(|_| at == 1));
        assert_eq!(find("c/s_20.new").as_deref(), Some("c/s_20"));
    }

    #[test]
    fn a_look_at_a_directory_ends() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("a/b")).unwrap();
        std::fs::write(base.path().join("a/b/x"), "").unwrap();
        let of = |rest: &str| (rest == "/a/b/x").then_some(7);
        assert_eq!(first_below(base.path(), "", &mut 3, &of), Some(7));
        assert_eq!(first_below(base.path(), "", &mut 2, &of), None);
    }
}
