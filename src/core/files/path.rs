//! Path names, without looking at the file system.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

/// Makes `path` absolute (relative ones start at `current_dir`) and takes out `.`, `..` and doubled
/// slashes by the text alone; symbolic links are not looked at.
#[must_use]
pub fn normalize(path: &Path, current_dir: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in current_dir.join(path).components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => drop(out.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// Returns the part of `path` below `base`, both normalised; `None` if it is not below it, or its
/// name is not UTF-8 and therefore cannot stand in a record.
#[must_use]
pub fn relative_to(path: &Path, base: &Path) -> Option<String> {
    let name = path.strip_prefix(base).ok()?.to_str()?;
    is_safe_relative(name).then(|| name.to_owned())
}

/// Tells whether `name` stays below any directory that it is joined to: relative, not empty, in
/// normal form (no `.`, no `..`, no doubled or trailing slash), no NUL.
#[must_use]
pub fn is_safe_relative(name: &str) -> bool {
    let safe = |part: &str| !matches!(part, "" | "." | "..");
    !name.contains('\0') && name.split('/').all(safe)
}

/// Joins a name that comes from a file or from another rank to `dir`.
///
/// # Errors
/// If the result could lie outside `dir`.
pub fn join_relative(dir: &Path, name: &str) -> Result<PathBuf> {
    if is_safe_relative(name) {
        Ok(dir.join(name))
    } else {
        Err(Error::Refused(format!("refused the file name {name:?}: not below {}", dir.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_form_is_lexical() {
        let cases = [
            ("a/./b//c", "/w/a/b/c"),
            ("../x", "/x"),
            ("/a/b/../../../c/", "/c"),
            ("", "/w"),
            ("/", "/"),
        ];
        for (path, normal) in cases {
            assert_eq!(normalize(Path::new(path), Path::new("/w")), Path::new(normal), "{path}");
        }
    }

    #[test]
    fn names_that_could_escape_are_refused() {
        for name in ["", ".", "..", "/a", "a/../b", "a/..", "a//b", "a/", "./a", "a\0b"] {
            assert!(!is_safe_relative(name), "{name:?}");
            assert!(join_relative(Path::new("/d"), name).is_err());
        }
        for name in ["a", "a/b", "..a", "a..", ".hidden", "a b"] {
            assert!(is_safe_relative(name), "{name:?}");
        }
    }

    #[test]
    fn below_the_base_only() {
        let relative = |path| relative_to(Path::new(path), Path::new("/pfs/run"));
        assert_eq!(relative("/pfs/run/a/b").as_deref(), Some("a/b"));
        assert_eq!(relative("/pfs/run"), None);
        assert_eq!(relative("/pfs/run2/a"), None);
    }
}
