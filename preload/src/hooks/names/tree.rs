//! nftw(3) and ftw(3) below the prefix: libc's read directories by inner calls that no hook sees,
//! so the walk is made here, of the hooked functions.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

use libc::AT_FDCWD;

use crate::fd::handle::Outcome;
use crate::hooks::below::below_prefix_anew;
use crate::hooks::family::interpose;
use crate::signal::guard;

type Visit =
    unsafe extern "C-unwind" fn(*const c_char, *const libc::stat, c_int, *mut Position) -> c_int;
type OldVisit = unsafe extern "C-unwind" fn(*const c_char, *const libc::stat, c_int) -> c_int;
type Nftw = unsafe extern "C-unwind" fn(*const c_char, Option<Visit>, c_int, c_int) -> c_int;
type Ftw = unsafe extern "C-unwind" fn(*const c_char, Option<OldVisit>, c_int) -> c_int;

interpose! {
    cancellable [nftw, nftw64](
        path: *const c_char, visit: Option<Visit>, descriptors: c_int, flags: c_int
    ) -> c_int = Nftw => nftw;
    cancellable [ftw, ftw64](path: *const c_char, visit: Option<OldVisit>, descriptors: c_int)
        -> c_int = Ftw => ftw;
}

#[repr(C)]
struct Position {
    base: c_int,
    level: c_int,
}

const FTW_F: c_int = 0;
const FTW_D: c_int = 1;
const FTW_DNR: c_int = 2;
const FTW_NS: c_int = 3;
const FTW_SL: c_int = 4;
const FTW_DP: c_int = 5;
const FTW_SLN: c_int = 6;

const FTW_PHYS: c_int = 1;
const FTW_MOUNT: c_int = 2;
const FTW_CHDIR: c_int = 4;
const FTW_DEPTH: c_int = 8;
const FTW_ACTIONRETVAL: c_int = 16;

const FTW_SKIP_SUBTREE: c_int = 2;
const FTW_SKIP_SIBLINGS: c_int = 3;

unsafe fn nftw(
    real: Nftw,
    path: *const c_char,
    visit: Option<Visit>,
    descriptors: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the program's own arguments and function.
    unsafe {
        match visit {
            // A walk that changes the working directory is left to libc.
            Some(visit) if flags & FTW_CHDIR == 0 && is_below(path) => {
                let call = |path: &CStr, stat: &libc::stat, what, mut position: Position| {
                    visit(path.as_ptr(), stat, what, &raw mut position)
                };
                walk(path, flags, call)
            }
            _ => real(path, visit, descriptors, flags),
        }
    }
}

unsafe fn ftw(
    real: Ftw,
    path: *const c_char,
    visit: Option<OldVisit>,
    descriptors: c_int,
) -> c_int {
    // SAFETY: the program's own arguments and function.
    unsafe {
        match visit {
            Some(visit) if is_below(path) => walk(path, 0, |path, stat, what, _| {
                let what = if what == FTW_SLN { FTW_NS } else { what };
                visit(path.as_ptr(), stat, what)
            }),
            _ => real(path, visit, descriptors),
        }
    }
}

unsafe fn is_below(path: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    unsafe { below_prefix_anew((), AT_FDCWD, path, |_| Outcome::Done(())) }.is_some()
}

unsafe fn walk(
    path: *const c_char,
    flags: c_int,
    visit: impl FnMut(&CStr, &libc::stat, c_int, Position) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    let kept = bytes.len() - bytes.iter().rev().take_while(|&&byte| byte == b'/').count();
    let path = bytes[..kept.max(1).min(bytes.len())].to_vec();
    let mut walk = Walk { flags, visit, device: None, seen: BTreeSet::new() };
    match walk.at(path, 0) {
        // Codes of FTW_ACTIONRETVAL for the root itself end the walk in success.
        Ok(()) => 0,
        Err(FTW_SKIP_SUBTREE | FTW_SKIP_SIBLINGS) if flags & FTW_ACTIONRETVAL != 0 => 0,
        Err(code) => code,
    }
}

struct Walk<F> {
    flags: c_int,
    visit: F,
    /// The device is only compared with FTW_MOUNT.
    device: Option<u64>,
    /// Where symlinks are followed, each directory is visited once.
    seen: BTreeSet<(u64, u64)>,
}

impl<F: FnMut(&CStr, &libc::stat, c_int, Position) -> c_int> Walk<F> {
    /// `Err` is what the whole walk returns; -1 with errno for failures of ours.
    fn at(&mut self, path: Vec<u8>, level: c_int) -> Result<(), c_int> {
        let base = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let base = if base >= path.len() { 0 } else { base };
        let Ok(name) = CString::new(path) else { return Ok(()) };
        let position = || Position { base: base as c_int, level };
        let (stat, mut what) = self.kind_of(&name, level)?;
        // A cached file lies on another device than its directory; only those tell of mounts.
        if what == FTW_D && self.device.is_some_and(|device| device != stat.st_dev) {
            return Ok(());
        }
        if level == 0 && self.flags & FTW_MOUNT != 0 {
            self.device = Some(stat.st_dev);
        }
        if what != FTW_D {
            return self.call(&name, &stat, what, position());
        }
        if self.flags & FTW_PHYS == 0 && !self.seen.insert((stat.st_dev, stat.st_ino)) {
            return Ok(());
        }
        let names = match names_in(&name) {
            Ok(names) => names,
            Err(libc::EACCES) => {
                what = FTW_DNR;
                return self.call(&name, &stat, what, position());
            }
            Err(_) => return Err(-1),
        };
        if self.flags & FTW_DEPTH == 0 {
            match self.call(&name, &stat, what, position()) {
                Err(FTW_SKIP_SUBTREE) if self.flags & FTW_ACTIONRETVAL != 0 => return Ok(()),
                other => other?,
            }
        }
        for entry in names {
            let mut below = name.to_bytes().to_vec();
            if below.last() != Some(&b'/') {
                below.push(b'/');
            }
            below.extend_from_slice(&entry);
            match self.at(below, level + 1) {
                Err(FTW_SKIP_SIBLINGS) if self.flags & FTW_ACTIONRETVAL != 0 => break,
                other => other?,
            }
        }
        if self.flags & FTW_DEPTH != 0 {
            return self.call(&name, &stat, FTW_DP, position());
        }
        Ok(())
    }

    fn call(
        &mut self,
        name: &CStr,
        stat: &libc::stat,
        what: c_int,
        position: Position,
    ) -> Result<(), c_int> {
        match (self.visit)(name, stat, what, position) {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// A name that cannot be asked about is visited as such, the first one excepted.
    fn kind_of(&self, name: &CStr, level: c_int) -> Result<(libc::stat, c_int), c_int> {
        let mut stat = MaybeUninit::<libc::stat>::zeroed();
        let physical = self.flags & FTW_PHYS != 0;
        // SAFETY: C string and buffer are valid; the structure is plain data, all zero a value.
        let (stat, what) = unsafe {
            let mut call = |follow: bool| {
                let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
                libc::fstatat(AT_FDCWD, name.as_ptr(), stat.as_mut_ptr(), flags)
            };
            if call(!physical) == 0 {
                let stat = stat.assume_init();
                let what = match stat.st_mode & libc::S_IFMT {
                    libc::S_IFDIR => FTW_D,
                    libc::S_IFLNK => FTW_SL,
                    _ => FTW_F,
                };
                return Ok((stat, what));
            }
            let code = guard::errno();
            if code != libc::EACCES && code != libc::ENOENT {
                return Err(-1);
            }
            let what = if !physical && call(false) == 0 { FTW_SLN } else { FTW_NS };
            guard::set_errno(code);
            (stat.assume_init(), what)
        };
        let is_link = stat.st_mode & libc::S_IFMT == libc::S_IFLNK;
        match (level, what) {
            (_, FTW_SLN) if is_link => Ok((stat, what)),
            (0, _) => Err(-1),
            _ => Ok((stat, FTW_NS)),
        }
    }
}

fn names_in(directory: &CStr) -> Result<Vec<Vec<u8>>, c_int> {
    let mut names = Vec::new();
    // SAFETY: the exported functions; an entry is used before the next is read.
    unsafe {
        let stream = libc::opendir(directory.as_ptr());
        if stream.is_null() {
            return Err(guard::errno());
        }
        loop {
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break;
            }
            let name = CStr::from_ptr((&raw const (*entry).d_name).cast()).to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        libc::closedir(stream);
    }
    Ok(names)
}
