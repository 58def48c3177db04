//! Whether a name can lie below the prefix at all: found out without lock and allocation, since a
//! signal handler may ask that has interrupted malloc (a crash in it, and what run-time systems
//! open then to tell of it). Only a name that may be ours is worth our work.

use std::ffi::{CStr, c_char, c_int};

use crate::path::canonical::surely_canonical;
use crate::path::memory::{NameFact, NameKey, NameKind};
use crate::path::text::{below, position_of_dot_dot};
use crate::{path::aliases, signal::guard};

const BYTES: usize = libc::PATH_MAX as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameIs {
    /// The name leads below the prefix, or it cannot be told here.
    MayBeBelow,
    /// The name leads elsewhere. If it `stays`, until something is forgotten
    /// ([`crate::path::memory`]).
    Elsewhere { stays: bool },
}

struct FixedPath {
    bytes: [u8; BYTES],
    length: usize,
}

impl FixedPath {
    const fn new() -> Self {
        Self { bytes: [0; BYTES], length: 0 }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns `None` if there is no room for it and a NUL.
    fn push(&mut self, more: &[u8]) -> Option<()> {
        let end = self.length + more.len();
        self.bytes.get_mut(self.length..end).filter(|_| end < BYTES)?.copy_from_slice(more);
        self.length = end;
        Some(())
    }

    /// The call writes a C string of at most so many bytes, or says that it failed.
    fn fill(&mut self, call: impl FnOnce(*mut c_char, usize) -> bool) -> Option<()> {
        let done = call(self.bytes.as_mut_ptr().cast(), BYTES);
        self.length = CStr::from_bytes_until_nul(&self.bytes).ok().filter(|_| done)?.count_bytes();
        Some(())
    }
}

pub(crate) fn at(prefix: &[u8], dirfd: c_int, path: &[u8]) -> NameIs {
    if path.is_empty() {
        return NameIs::Elsewhere { stays: false };
    }
    if surely_canonical(prefix, path) {
        return NameIs::MayBeBelow;
    }
    let mut whole = FixedPath::new();
    match absolute(dirfd, path, &mut whole) {
        Some(()) if !surely_canonical(prefix, whole.get()) => {}
        _ => return NameIs::MayBeBelow,
    }
    match position_of_dot_dot(whole.get()) {
        Some(dots) => match through_dot_dot(prefix, whole.get()) {
            Some(found) => found,
            // Whether that is a file tells how the call fails.
            None => without_dots(prefix, &whole.get()[..dots.max(1)]).passing(),
        },
        None => without_dots(prefix, whole.get()),
    }
}

impl NameIs {
    fn passing(self) -> Self {
        match self {
            Self::MayBeBelow => self,
            Self::Elsewhere { .. } => Self::Elsewhere { stays: false },
        }
    }
}

fn absolute(dirfd: c_int, path: &[u8], whole: &mut FixedPath) -> Option<()> {
    if path[0] != b'/' {
        // SAFETY: each call gets a buffer that is writable for the length that it is told.
        whole.fill(|buffer, bytes| unsafe {
            if dirfd == libc::AT_FDCWD {
                return !libc::getcwd(buffer, bytes).is_null();
            }
            let link = link_of(dirfd);
            let length = libc::readlink(link.as_ptr().cast(), buffer, bytes - 1);
            let end = usize::try_from(length).ok();
            end.is_some_and(|end| {
                *buffer.add(end) = 0;
                true
            })
        })?;
        // The kernel writes "(unreachable)" before a directory outside our root.
        if whole.get().first() != Some(&b'/') {
            return None;
        }
        whole.push(b"/")?;
    }
    whole.push(path)
}

fn link_of(fd: c_int) -> [u8; 32] {
    const HEAD: &[u8] = b"/proc/self/fd/";
    let mut link = [0; 32];
    link[..HEAD.len()].copy_from_slice(HEAD);
    let (mut digits, mut at, mut rest) = ([0; 12], 12, fd.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let count = digits.len() - at;
    link[HEAD.len()..HEAD.len() + count].copy_from_slice(&digits[at..]);
    link
}

fn without_dots(prefix: &[u8], whole: &[u8]) -> NameIs {
    let mut plain = FixedPath::new();
    let parts = whole.split(|&byte| byte == b'/');
    for part in parts.filter(|part| !part.is_empty() && *part != b".") {
        if plain.push(b"/").and_then(|()| plain.push(part)).is_none() {
            return NameIs::MayBeBelow;
        }
    }
    let length = plain.length;
    if length == 0 || below(prefix, plain.get()) || is_alias(plain.get()) {
        return NameIs::MayBeBelow;
    }
    // What a symlink leads to that is meant for a directory, not the link.
    let (mut end, mut stays) =
        if whole.ends_with(b"/.") { (length, false) } else { (slash_before(&plain, length), true) };
    let mut real = FixedPath::new();
    loop {
        let key = NameKey::of(&plain.bytes[..end], NameKind::Directory);
        match key.recall() {
            NameFact::Foreign => return NameIs::Elsewhere { stays },
            NameFact::Canonical | NameFact::Below => return NameIs::MayBeBelow,
            NameFact::Nothing | NameFact::NoLink | NameFact::Unwritten => {}
        }
        match resolve(&mut plain, end, &mut real) {
            Ok(()) if is_ours(prefix, real.get()) => {
                key.remember(NameFact::Below);
                return NameIs::MayBeBelow;
            }
            Ok(()) => {
                key.remember(NameFact::Foreign);
                return NameIs::Elsewhere { stays };
            }
            // A directory that is not there yet: its nearest ancestor tells.
            Err(libc::ENOENT) if end > 1 => (end, stays) = (slash_before(&plain, end), false),
            Err(_) => return NameIs::Elsewhere { stays: false },
        }
    }
}

fn slash_before(path: &FixedPath, end: usize) -> usize {
    path.bytes[..end].iter().rposition(|&byte| byte == b'/').unwrap_or(0).max(1)
}

/// `..` after a symlink leads elsewhere than the text says. `None`: it leads nowhere.
fn through_dot_dot(prefix: &[u8], path: &[u8]) -> Option<NameIs> {
    let trimmed = path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
    let (mut text, mut real) = (FixedPath::new(), FixedPath::new());
    text.push(&path[..trimmed])?;
    let slash = path[..trimmed].iter().rposition(|&byte| byte == b'/')?;
    let name = &path[slash + 1..trimmed];
    let is_dots = name == b"." || name == b"..";
    resolve(&mut text, if is_dots { trimmed } else { slash.max(1) }, &mut real).ok()?;
    if !is_dots && real.push(b"/").and_then(|()| real.push(name)).is_none() {
        return Some(NameIs::MayBeBelow);
    }
    let ours = is_ours(prefix, real.get());
    Some(if ours { NameIs::MayBeBelow } else { NameIs::Elsewhere { stays: false } })
}

/// libc's realpath(3) allocates nothing with a buffer of ours, unless a symlink on the way is
/// longer than a kilobyte.
fn resolve(path: &mut FixedPath, end: usize, real: &mut FixedPath) -> Result<(), c_int> {
    let behind = std::mem::replace(&mut path.bytes[end], 0);
    let text = path.bytes.as_ptr().cast();
    // SAFETY: a C string, and a buffer of PATH_MAX bytes.
    let done = real.fill(|buffer, _| unsafe { !libc::realpath(text, buffer).is_null() });
    let code = guard::errno();
    path.bytes[end] = behind;
    done.ok_or(code)
}

fn is_ours(prefix: &[u8], real: &[u8]) -> bool {
    below(prefix, real) || aliases::all().iter().any(|alias| below(&alias.place, real))
}

fn is_alias(plain: &[u8]) -> bool {
    aliases::all().iter().any(|alias| alias.place == plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::allocations;
    use crate::path::canonical::locate_whole;

    #[test]
    fn what_is_elsewhere_is_told_without_an_allocation_and_as_the_long_way_tells_it() {
        let top = std::env::temp_dir().join(format!("scr-glance-{}", std::process::id()));
        let prefix = top.join("real/prefix");
        std::fs::create_dir_all(prefix.join("sub")).unwrap();
        std::fs::create_dir_all(top.join("far/deep")).unwrap();
        std::os::unix::fs::symlink(&prefix, top.join("alias")).unwrap();
        std::os::unix::fs::symlink(top.join("far"), prefix.join("out")).unwrap();
        let top = std::fs::canonicalize(top).unwrap().to_str().unwrap().to_owned();
        let prefix = format!("{top}/real/prefix");
        let absolute = [
            ("/far/f", false),
            ("/far/deep/f", false),
            ("/far/./deep//f/", false),
            ("/far/new/deep/f", false),
            ("/far/deep/../f", false),
            ("/far/missing/../f", false),
            ("/real/f", false),
            ("/real/prefixed/f", false),
            ("/real/prefix/../f", false),
            ("/alias/f", true),
            ("/alias/../prefix/f", true),
            ("/real/prefix/new/f", true),
            ("/real/prefix/out/f", true), // it is misled
            ("/alias/missing/../f", true),
        ];
        let absolute = absolute.map(|(name, is)| (libc::AT_FDCWD, format!("{top}{name}"), is));
        let directory = std::fs::File::open(format!("{top}/far")).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&directory);
        let relative = [
            (libc::AT_FDCWD, "no/such/file".to_owned(), false),
            (libc::AT_FDCWD, "a_file".to_owned(), false),
            (libc::AT_FDCWD, "./.debug/../x".to_owned(), false),
            (fd, "deep/f".to_owned(), false),
            (fd, "../alias/f".to_owned(), true),
        ];
        let prefix = prefix.as_bytes();
        for round in 0..2 {
            for (dirfd, name, may_be) in absolute.iter().chain(&relative) {
                let before = allocations();
                let found = at(prefix, *dirfd, name.as_bytes());
                assert_eq!(allocations(), before, "{name} {round}");
                assert_eq!(found == NameIs::MayBeBelow, *may_be, "{name} {round}");
                let long = locate_whole(prefix, *dirfd, name.as_bytes());
                let is = long.name.is_some() || long.misled.is_some() || long.missing.is_some();
                assert_eq!(is, *may_be, "{name} {round}");
            }
        }
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn links_of_descriptors() {
        let text = |fd| CStr::from_bytes_until_nul(&link_of(fd)).unwrap().to_owned();
        assert_eq!(text(0).as_c_str(), c"/proc/self/fd/0");
        assert_eq!(text(1203).as_c_str(), c"/proc/self/fd/1203");
    }
}
