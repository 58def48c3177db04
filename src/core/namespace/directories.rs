//! Directories that get their final name when all ranks have written into them, files that get it
//! when several ranks have written them, and what the program calls both before: learned from one
//! rename, and told to all ranks at the agreement that follows.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::machine::Knowledge;
use crate::patterns::{Match, SeriesSet, Template};

use super::names::parent;

/// Before the texts of such templates among those of temporary names of one rank.
const MARKS: [(&str, RenamedKind); 2] =
    [("directory ", RenamedKind::Directory), ("shared file ", RenamedKind::File)];

/// What one rank renames for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenamedKind {
    Directory,
    File,
}

impl RenamedKind {
    /// Learns from a rename. `None` if the final name does not follow from the one before.
    #[must_use]
    pub fn learn(self, from: &str, last: &str) -> Option<String> {
        let follows = |template: &Template| template.final_name(from).as_deref() == Some(last);
        let template = Template::learn(from, last).filter(follows)?;
        let (mark, _) = MARKS.iter().find(|(_, of)| *of == self)?;
        Some(format!("{mark}{}", template.to_text()))
    }
}

/// Entries of a directory about to be renamed that are looked at to learn from it.
pub const LOOKED_AT_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Directories {
    any: AtomicBool,
    templates: RwLock<Vec<RenameRule>>,
}

#[derive(Debug, PartialEq)]
struct RenameRule {
    series: usize,
    of: RenamedKind,
    template: Template,
}

impl RenameRule {
    fn from_text(series: usize, text: &str) -> Option<Self> {
        let read = |(mark, of): &(&str, RenamedKind)| Some((*of, text.strip_prefix(mark)?));
        let (of, text) = MARKS.iter().find_map(read)?;
        Some(RenameRule { series, of, template: Template::from_text(text)? })
    }
}

#[derive(Debug)]
pub struct Waiting {
    /// What will be renamed: the directory, or the file itself.
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
        let Some(learned) = RenameRule::from_text(series, text) else { return false };
        let mut templates = self.templates.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = !templates.contains(&learned);
        if is_new {
            templates.push(learned);
            self.any.store(true, Ordering::Release);
        }
        is_new
    }

    pub fn waiting(&self, patterns: &SeriesSet, name: &str) -> Option<Waiting> {
        self.find(|known| {
            let follows = |(dir, rest): (&str, &str)| {
                let last_dir = known.template.final_name(dir)?;
                let last = format!("{last_dir}{rest}");
                let matched = patterns.match_path(&last)?;
                let ours = match known.of {
                    RenamedKind::Directory => carries_id(&last_dir, &matched),
                    RenamedKind::File => patterns.match_path(name).is_none(),
                };
                let ours = ours && matched.series == known.series && !patterns.ignores(name);
                ours.then(|| Waiting { dir: dir.to_string(), last_dir, last, matched })
            };
            match known.of {
                RenamedKind::File => follows((name, "")),
                RenamedKind::Directory => {
                    name.match_indices('/').map(|(at, _)| name.split_at(at)).find_map(follows)
                }
            }
        })
    }

    pub fn is_final_of(&self, dir: &str, last: &str) -> bool {
        let of = |known: &RenameRule| {
            let follows = || known.template.final_name(dir).filter(|name| name == last).map(drop);
            (known.of == RenamedKind::Directory).then(follows).flatten()
        };
        self.find(of).is_some()
    }

    fn find<T>(&self, find: impl Fn(&RenameRule) -> Option<T>) -> Option<T> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let templates = self.templates.read().unwrap_or_else(PoisonError::into_inner);
        templates.iter().find_map(find)
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

/// Returns the series of a file that is renamed with its directory: `rest` of its name stays.
#[must_use]
pub fn series_below(patterns: &SeriesSet, dir: &str, last: &str, rest: &str) -> Option<usize> {
    let matched = patterns.match_path(&format!("{last}{rest}"))?;
    let before = patterns.match_path(&format!("{dir}{rest}"));
    // Another checkpoint's name is one that it gets: this is no temporary one.
    let same = before.is_none_or(|it| (it.series, &it.id) == (matched.series, &matched.id));
    (same && carries_id(last, &matched)).then_some(matched.series)
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
    use crate::patterns::{PatternConfig, PatternText};

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
        let own = Template::learn("c/s_10.new", "c/s_10").unwrap().to_text();
        assert!(!directories.add(0, &own), "that of a file of one rank");
        let text = RenamedKind::Directory.learn("c/s_10.new", "c/s_10").unwrap();
        let known = Knowledge { temporaries: vec![text.clone(), own], ..Knowledge::default() };
        let directories = Directories::new(&[Knowledge::default(), known]);
        assert!(!directories.add(1, &text) && directories.add(0, &text));
        assert!(directories.is_final_of("c/s_20.new", "c/s_20"));
        assert!(directories.add(1, &RenamedKind::File.learn("c/a.x.part", "c/a.x").unwrap()));
        assert!(!directories.is_final_of("c/s_20.part", "c/s_20"), "that of a file");
        assert_eq!(RenamedKind::File.learn("c/tmpk3_9a1xz", "c/s_10"), None, "it does not follow");
    }

    #[test]
    fn a_file_of_several_ranks_is_known_by_its_temporary_name() {
        let [patterns, wider] = ["c/s_{id}.h5", "c/s_{id}.h5*"].map(|text| {
            let (name, place, text) = (String::new(), String::new(), text.to_string());
            let checkpoint = vec![PatternText { name, place, text }];
            SeriesSet::new(&PatternConfig { checkpoint, ..PatternConfig::default() }).unwrap()
        });
        let directories = Directories::default();
        directories.add(0, &RenamedKind::File.learn("c/s_10.h5.tmp", "c/s_10.h5").unwrap());
        let of =
            |patterns, name| directories.waiting(patterns, name).map(|it| (it.last, it.matched.id));
        let last = Some(("c/s_20.h5".to_string(), Some("20".to_string())));
        assert_eq!(of(&patterns, "c/s_20.h5.tmp"), last);
        assert_eq!(of(&wider, "c/s_20.h5.tmp"), None, "it has a name of ours already");
        for name in ["c/s_20.h5", "c/s_20.h5.tmp/x", "c/s_20.h5.part"] {
            assert_eq!(of(&patterns, name), None, "{name}");
        }
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
