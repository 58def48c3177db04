//! Paths below the prefix, and the names that are ours there.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::transfer::is_staged_name;

/// Our folder in the prefix; the program never sees it.
pub const STATE_FOLDER: &str = ".scr";

/// Below it: private copies of sealed files that the store has no room for.
pub const FALLBACK_DIR: &str = "shadow";

/// Folder of private copies in a cache directory.
pub const SHADOWS: &str = "scr.shadow";

/// Gives `path` relative to `prefix`, as text. `None` outside of it, for the prefix itself, and for
/// names that are not UTF-8 (records are text; such files stay on the PFS).
pub fn relative<'a>(prefix: &Path, path: &'a Path) -> Option<&'a str> {
    // Both are canonical, so their bytes decide, at a fraction of what comparing components costs.
    let (prefix, path) = (prefix.as_os_str().as_bytes(), path.as_os_str().as_bytes());
    let inside = path.strip_prefix(prefix)?;
    let inside = if prefix == b"/" { inside } else { inside.strip_prefix(b"/")? };
    std::str::from_utf8(inside).ok().filter(|name| !name.is_empty())
}

/// Returns the directory that `name` lies in; empty for the prefix itself.
pub fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Tells whether one part of `name` is ours: the state folder at the top, or a staged file
/// (`.<name>.scr-<epoch>`, 16 hex digits).
pub fn is_ours(name: &str) -> bool {
    let top = name.split('/').next().unwrap_or(name);
    top == STATE_FOLDER || is_staged_name(name.rsplit('/').next().unwrap_or(name))
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
}
