//! From what the program wrote to the one name of a file: absolute, no `.`, `..`, `//`, and with
//! the symlinks of its directory resolved. Most names are not ours: for those
//! [`crate::path::memory`] decides without lock, allocation or system call. What may change names
//! empties it ([`forget`]). A symlink at the prefix or above it is resolved once. One below it may
//! be pointed elsewhere at any time (`current -> step_20`), so it is resolved at every use; but
//! what lies in a directory that the patterns name keeps that name if it is one ([`aliases`]).

use std::ffi::{CStr, CString, c_int};

use crate::base::errno::errno;
use crate::path::aliases;
use crate::path::disk::{of_descriptor, real_path, working_directory};
use crate::path::memory::{self, NameFact, NameKey, NameKind};
use crate::path::spellings::{Resolved, canonical_directory};
use crate::path::text::{
    below, has_dot_dot, join, last_slash_if_plain, lexical, position_of_dot_dot,
};

/// Forgets, since a symlink or a directory appeared or moved.
pub(crate) fn forget() {
    memory::forget();
    memory::forget_relative();
}

/// Answers at once; false proves nothing.
#[inline]
pub(crate) fn surely_outside(prefix: &[u8], path: &[u8]) -> bool {
    let Some(slash) = last_slash_if_plain(path) else { return false };
    if below(prefix, path) {
        return false;
    }
    NameKey::of(&path[..slash.max(1)], NameKind::Directory).recall() == NameFact::Foreign
}

/// Answers at once; false proves nothing.
pub(crate) fn surely_canonical(prefix: &[u8], path: &[u8]) -> bool {
    last_slash_if_plain(path).is_some_and(|slash| {
        below(prefix, path)
            && NameKey::of(&path[..slash.max(1)], NameKind::Directory).recall()
                == NameFact::Canonical
    })
}

/// Returns `None` for a path elsewhere. The last component is not followed when it is a symlink.
/// Guard held.
pub(crate) fn locate(prefix: &[u8], dirfd: c_int, path: &[u8]) -> Option<CString> {
    locate_whole(prefix, dirfd, path).name
}

#[derive(Default)]
pub(crate) struct Located {
    pub name: Option<CString>,
    /// The name as written, lexically normal, if that lies below the prefix and a symlink in it
    /// leads elsewhere.
    pub misled: Option<Vec<u8>>,
    /// The file system does not have this directory of the name (canonical).
    pub missing: Option<CString>,
}

impl Located {
    fn at(name: Vec<u8>) -> Self {
        Self { name: CString::new(name).ok(), ..Self::default() }
    }
}

/// Does what [`locate`] does, and tells more. Guard held.
pub(crate) fn locate_whole(prefix: &[u8], dirfd: c_int, path: &[u8]) -> Located {
    if path.is_empty() {
        return Located::default();
    }
    if surely_canonical(prefix, path) {
        return Located::at(path.to_vec());
    }
    let Some(whole) = absolute(dirfd, path) else { return Located::default() };
    if surely_canonical(prefix, &whole) {
        return Located::at(whole);
    }
    if let Some(dots) = position_of_dot_dot(&whole) {
        return match through_dot_dot(&whole) {
            Some(found) if below(prefix, &found) => Located::at(found),
            Some(_) => Located::default(),
            None => {
                let missing = locate(prefix, libc::AT_FDCWD, &whole[..dots]);
                Located { missing, ..Located::default() }
            }
        };
    }
    let plain = lexical(&whole);
    let found = resolved(prefix, &whole, &plain).filter(|found| below(prefix, &found.name));
    let is_misled = below(prefix, &plain) && found.as_ref().is_none_or(|it| it.name != plain);
    let (name, missing) = found.map_or((None, None), |it| (Some(it.name), it.missing));
    let text = |path: Option<Vec<u8>>| path.and_then(|path| CString::new(path).ok());
    Located { name: text(name), misled: is_misled.then_some(plain), missing: text(missing) }
}

/// The `whole` name is `plain` when lexically normal.
fn resolved(prefix: &[u8], whole: &[u8], plain: &[u8]) -> Option<Resolved> {
    if plain == prefix {
        return Some(Resolved::at(plain.to_vec()));
    }
    if let Some(alias) = aliases::all().iter().find(|alias| alias.place == plain) {
        return Some(Resolved::at(alias.name.clone()));
    }
    if whole.ends_with(b"/.") {
        return canonical_directory(prefix, plain); // what a symlink leads to, not the link
    }
    let slash = plain.iter().rposition(|&byte| byte == b'/')?;
    let directory = canonical_directory(prefix, &plain[..slash.max(1)])?;
    Some(Resolved { name: join(&directory.name, &plain[slash + 1..]), ..directory })
}

pub(crate) fn is_no_link(path: &CStr) -> bool {
    NameKey::of(path.to_bytes(), NameKind::File).recall() == NameFact::NoLink
}

/// Leaves symlinks as they are; the path may lie anywhere. Guard held.
pub(crate) fn absolute_name(dirfd: c_int, path: &[u8]) -> Option<CString> {
    if path.is_empty() {
        return None;
    }
    let whole = absolute(dirfd, path)?;
    let name = if has_dot_dot(&whole) { through_dot_dot(&whole)? } else { lexical(&whole) };
    CString::new(name).ok()
}

/// Resolves `link` (canonical) one step; `None` when it is no symlink or leads out of the prefix.
/// That an existing file is no symlink is remembered, so that opening a log again and again does
/// not ask each time; a name that is missing is asked for anew. Guard held.
pub(crate) fn follow(prefix: &[u8], link: &CStr) -> Option<CString> {
    let own = link.to_bytes();
    let key = NameKey::of(own, NameKind::File);
    if key.recall() == NameFact::NoLink || aliases::all().iter().any(|alias| alias.name == own) {
        return None;
    }
    let mut target = [0_u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is writable for its length.
    let length = unsafe { libc::readlink(link.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    let Ok(length) = usize::try_from(length) else {
        if errno() == libc::EINVAL {
            key.remember(NameFact::NoLink);
        }
        return None;
    };
    let target = &target[..length];
    if target.first() == Some(&b'/') {
        return locate(prefix, libc::AT_FDCWD, target);
    }
    let slash = own.iter().rposition(|&byte| byte == b'/')?;
    locate(prefix, libc::AT_FDCWD, &join(&own[..slash.max(1)], target))
}

fn absolute(dirfd: c_int, path: &[u8]) -> Option<Vec<u8>> {
    if path[0] == b'/' {
        return Some(path.to_vec());
    }
    let base = if dirfd == libc::AT_FDCWD { working_directory()? } else { of_descriptor(dirfd)? };
    Some(join(&base, path))
}

/// `..` after a symlink leads elsewhere than the text says, so the file system is asked.
fn through_dot_dot(path: &[u8]) -> Option<Vec<u8>> {
    let trimmed = path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
    let path = &path[..trimmed];
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    let real = match &path[slash + 1..] {
        b"." | b".." => real_path(path).ok()?,
        name => join(&real_path(&path[..slash.max(1)]).ok()?, name),
    };
    Some(aliases::named(real))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::spellings::{is_plain_below, spelled_otherwise};

    fn located(prefix: &[u8], path: &str) -> Option<String> {
        locate(prefix, libc::AT_FDCWD, path.as_bytes()).map(|found| found.into_string().unwrap())
    }

    #[test]
    fn symlinks_dots_and_missing_directories() {
        let top = std::env::temp_dir().join(format!("scr-paths-{}", std::process::id()));
        let prefix = top.join("real/prefix");
        std::fs::create_dir_all(prefix.join("sub")).unwrap();
        std::os::unix::fs::symlink(&prefix, top.join("alias")).unwrap();
        std::os::unix::fs::symlink("sub", prefix.join("inner")).unwrap();
        let top = real_path(top.to_str().unwrap().as_bytes()).unwrap();
        let top = String::from_utf8(top).unwrap();
        let prefix = format!("{top}/real/prefix");
        let cases = [
            ("/alias/f", "/f"),
            ("/alias//./f/", "/f"),
            ("/alias/inner/f", "/sub/f"),
            ("/real/prefix/inner/../f", "/f"),
            ("/real/prefix/new/deep/f", "/new/deep/f"),
            ("/real/../alias/sub/f", "/sub/f"),
        ];
        for round in 0..2 {
            for (written, found) in cases {
                let want = Some(format!("{prefix}{found}"));
                assert_eq!(located(prefix.as_bytes(), &format!("{top}{written}")), want, "{round}");
            }
            assert_eq!(located(prefix.as_bytes(), &format!("{top}/real/f")), None);
        }
        // What the prefix is called is known by now; what a link below it leads to never is.
        assert!(spelled_otherwise(prefix.as_bytes(), format!("{top}/alias").as_bytes()).is_some());
        let inner = format!("{prefix}/inner");
        std::fs::create_dir(format!("{prefix}/other")).unwrap();
        std::fs::remove_file(&inner).unwrap();
        std::os::unix::fs::symlink("other", &inner).unwrap();
        for written in ["/alias/inner/f", "/real/prefix/inner/f"] {
            let found = located(prefix.as_bytes(), &format!("{top}{written}"));
            assert_eq!(found, Some(format!("{prefix}/other/f")));
        }
        assert!(surely_outside(prefix.as_bytes(), format!("{top}/real/f").as_bytes()));
        forget();
        assert!(!surely_outside(prefix.as_bytes(), format!("{top}/real/f").as_bytes()));
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn below_the_prefix_only_what_is_new_is_looked_at() {
        let top = std::env::temp_dir().join(format!("scr-plain-{}", std::process::id()));
        std::fs::create_dir_all(top.join("prefix/a/b")).unwrap();
        std::os::unix::fs::symlink("a", top.join("prefix/link")).unwrap();
        let top = real_path(top.to_str().unwrap().as_bytes()).unwrap();
        let top = String::from_utf8(top).unwrap();
        let prefix = format!("{top}/prefix");
        let is_plain =
            |name: &str| is_plain_below(prefix.as_bytes(), format!("{prefix}{name}").as_bytes());
        forget();
        assert!(is_plain("/a/b") && is_plain("/a") && is_plain(""));
        assert!(!is_plain("/link/b") && !is_plain("/link") && !is_plain("/a/none/c"));
        // What is known is not asked for again, until everything is forgotten.
        std::fs::rename(format!("{prefix}/a"), format!("{prefix}/c")).unwrap();
        assert!(is_plain("/a/b"));
        forget();
        assert!(!is_plain("/a/b") && is_plain("/c/b"));
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn what_lies_behind_an_alias_has_one_name() {
        let top = std::env::temp_dir().join(format!("scr-aliases-{}", std::process::id()));
        std::fs::create_dir_all(top.join("far/sub")).unwrap();
        std::fs::create_dir_all(top.join("prefix")).unwrap();
        let top = real_path(top.to_str().unwrap().as_bytes()).unwrap();
        let top = String::from_utf8(top).unwrap();
        let prefix = format!("{top}/prefix");
        for (to, name) in [("../far", "link"), ("../far/sub", "other"), ("..", "up")] {
            std::os::unix::fs::symlink(to, format!("{prefix}/{name}")).unwrap();
        }
        let name = format!("{prefix}/link").into_bytes();
        aliases::set(vec![aliases::Alias { name, place: format!("{top}/far").into_bytes() }]);
        let cases = [
            ("/prefix/link/f", Some("/link/f")),
            ("/prefix/link", Some("/link")),
            ("/far", Some("/link")),
            ("/far/", Some("/link")),
            ("/far/f", Some("/link/f")),
            ("/far/sub/f", Some("/link/sub/f")),
            ("/far/new/deep/f", Some("/link/new/deep/f")),
            ("/prefix/other/f", Some("/link/sub/f")),
            ("/prefix/other/../f", Some("/link/f")),
            ("/prefix/up/far/f", Some("/link/f")),
            ("/prefix/up/f", None),
            ("/farther/f", None),
        ];
        for round in 0..2 {
            for (written, found) in cases {
                let want = found.map(|found| format!("{prefix}{found}"));
                let found = located(prefix.as_bytes(), &format!("{top}{written}"));
                assert_eq!(found, want, "{written} {round}");
            }
        }
        let link = CString::new(format!("{prefix}/link")).unwrap();
        assert!(follow(prefix.as_bytes(), &link).is_none());
        let file = format!("{prefix}/link/sub/f");
        assert_eq!(aliases::physical(file.as_bytes()), format!("{top}/far/sub/f").into_bytes());
        let misled = |written: &str| {
            let path = format!("{prefix}{written}");
            locate_whole(prefix.as_bytes(), libc::AT_FDCWD, path.as_bytes()).misled.is_some()
        };
        assert!(misled("/up/f") && misled("/other/f"));
        assert!(!misled("/link/f") && !misled("/link/sub/f") && !misled("/f"));
        std::fs::remove_dir_all(top).unwrap();
    }
}
