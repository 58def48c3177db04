//! Paths below the prefix, the names that are ours there, and names that a program gives by calls.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{normalize, relative_to};
use crate::transfer::is_staged_name;

/// Our folder in the prefix; the program never sees it.
pub const STATE_FOLDER: &str = ".scr";

/// Below [`STATE_FOLDER`]: private copies of sealed files that the store has no room for.
pub const FALLBACK_DIR: &str = "shadow";

pub const SHADOWS: &str = "scr.shadow";

/// Returns `None` outside of `prefix`, for the prefix itself, and for names that are not UTF-8
/// (records are text; such files stay on the PFS).
pub fn relative<'a>(prefix: &Path, path: &'a Path) -> Option<&'a str> {
    // Both are canonical, so their bytes decide, at a fraction of what comparing components costs.
    let (prefix, path) = (prefix.as_os_str().as_bytes(), path.as_os_str().as_bytes());
    let inside = path.strip_prefix(prefix)?;
    let inside = if prefix == b"/" { inside } else { inside.strip_prefix(b"/")? };
    std::str::from_utf8(inside).ok().filter(|name| !name.is_empty())
}

pub fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Tells whether one part of `name` is ours: the state folder at the top, or a staged file
/// (`.<name>.scr-<epoch>`, 16 hex digits).
pub fn is_ours(name: &str) -> bool {
    let top = name.split('/').next().unwrap_or(name);
    top == STATE_FOLDER || is_staged_name(name.rsplit('/').next().unwrap_or(name))
}

/// Returns the directories of `name` that carry the captured id, or lie in one that does.
pub fn own_dirs<'a>(name: &'a str, masked: &str) -> impl Iterator<Item = &'a str> {
    let same = name.split('/').zip(masked.split('/')).take_while(|(own, all)| own == all).count();
    let ends = name.match_indices('/').map(|(at, _)| at);
    ends.skip(same).map(|at| &name[..at])
}

/// SCR_MAX_FILENAME: bytes of a path that the program gets, NUL included.
pub const FILENAME_MAX: usize = 1024;

/// Makes the name of a dataset one that index, commands and directories can have: one line, no
/// slashes, no leading dot. An empty or too long one is refused.
pub fn dataset_name(given: &str) -> Result<String> {
    if given.len() >= FILENAME_MAX {
        return Err(Error::Refused(format!(
            "the name of a dataset has {} bytes; SCR_MAX_FILENAME allows {}",
            given.len(),
            FILENAME_MAX - 1
        )));
    }
    let clean = |one: char| match one {
        '/' | '\\' => '_',
        one if one.is_control() || one.is_whitespace() => '_',
        one => one,
    };
    let name: String = given.trim().chars().map(clean).collect();
    let name = match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    };
    if name.is_empty() {
        return Err(Error::Refused("the name of a dataset is empty".to_string()));
    }
    Ok(name)
}

/// Finds the name below the prefix of a path that the program gives, through symbolic links if need
/// be. Names of our own files are refused.
pub fn name_below_prefix(prefix: &Path, path: &Path) -> Result<String> {
    let here = std::env::current_dir()
        .map_err(|e| Error::io("cannot find the working directory", ".", e))?;
    let whole = normalize(path, &here);
    let found = relative_to(&whole, prefix).or_else(|| relative_to(&resolve(&whole)?, prefix));
    match found {
        Some(name) if !is_ours(&name) => Ok(name),
        Some(name) => Err(Error::Refused(format!("{name} is a name of SCR's own files"))),
        None => Err(Error::Refused(format!(
            "{} is not below the prefix directory {} (SCR_PREFIX)",
            whole.display(),
            prefix.display()
        ))),
    }
}

/// Resolves symbolic links in what is there of the path.
fn resolve(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().skip(1).find_map(|dir| Some((dir, dir.canonicalize().ok()?)));
    let (dir, real) = there?;
    Some(real.join(path.strip_prefix(dir).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_are_recognised_and_only_those() {
        for name in [".scr", ".scr/index.scr", "ckpt/.a.dat.scr-0123456789abcdef"] {
            assert!(is_ours(name), "{name}");
        }
        for name in ["a/.scr", "x.scr-0123456789abcdef", ".a.scr-123", ".scr-0123456789abcdef"] {
            assert!(!is_ours(name), "{name}");
        }
    }

    #[test]
    fn only_names_below_the_prefix_are_relative() {
        let prefix = Path::new("/p/q");
        assert_eq!(relative(prefix, Path::new("/p/q/a/b")), Some("a/b"));
        assert_eq!(relative(prefix, Path::new("/p/q")), None);
        assert_eq!(relative(prefix, Path::new("/p/qq/a")), None);
        assert_eq!(relative(Path::new("/"), Path::new("/a/b")), Some("a/b"));
        assert_eq!(parent("a/b"), "a");
        assert_eq!(parent("a"), "");
    }

    #[test]
    fn only_directories_of_one_checkpoint_are_hidden() {
        let dirs = |name, masked| own_dirs(name, masked).collect::<Vec<_>>();
        assert_eq!(dirs("c/step_20/a/r", "c/step_{id}/a/r"), ["c/step_20", "c/step_20/a"]);
        assert!(dirs("c/step_20.dat", "c/step_{id}.dat").is_empty());
        assert!(dirs("c/latest", "c/latest").is_empty());
    }

    #[test]
    fn names_of_datasets_fit_into_one_line_and_one_directory() {
        for (given, expected) in [
            ("ckpt.7", "ckpt.7"),
            ("run/step 7", "run_step_7"),
            ("..", "_."),
            (" a\nb\t", "a_b"),
            ("a\u{e9}", "a\u{e9}"),
        ] {
            assert_eq!(dataset_name(given).unwrap(), expected);
        }
        for given in ["", "  ", &"x".repeat(FILENAME_MAX)] {
            assert!(dataset_name(given).is_err(), "{given}");
        }
        assert!(dataset_name(&"x".repeat(FILENAME_MAX - 1)).is_ok());
    }
}
