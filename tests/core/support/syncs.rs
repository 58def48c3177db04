//! What this process makes durable: counts it, and lets a step of it fail. Its own fsync(2),
//! rename(2) and the others come before those of libc.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::mortal::{self, Careless, is_careless, with_power};

/// Below which directories files are noted, and those that were synced.
static NOTED: Mutex<Vec<(PathBuf, Vec<PathBuf>)>> = Mutex::new(Vec::new());

/// Below which directories a step fails.
static FAULTS: Mutex<Vec<Plan>> = Mutex::new(Vec::new());

/// How many of [`FAULTS`] there are: no call but these cases is slower.
static PLANS: AtomicUsize = AtomicUsize::new(0);

/// A step that changes what is on the disk fails.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Steps before it.
    pub after: usize,
    /// `EIO` and the like.
    pub errno: c_int,
    /// All that follow fail, too.
    pub for_good: bool,
}

struct Plan {
    top: PathBuf,
    fault: Fault,
    steps: Vec<String>,
}

/// Begins to note the files below `top` that are synced.
pub fn watch(top: &Path) {
    NOTED.lock().unwrap().push((top.to_path_buf(), Vec::new()));
}

/// The files below `top`, relative, that were synced since [`watch`], which comes to its end.
pub fn watched(top: &Path) -> Vec<PathBuf> {
    let mut noted = NOTED.lock().unwrap();
    let at = noted.iter().position(|(watched, _)| watched == top).unwrap();
    let (_, found) = noted.swap_remove(at);
    found.into_iter().map(|path| path.strip_prefix(top).unwrap().to_path_buf()).collect()
}

/// From now on steps below `top` are counted, and `fault` happens.
pub fn fail_below(top: &Path, fault: Fault) {
    FAULTS.lock().unwrap().push(Plan { top: top.to_path_buf(), fault, steps: Vec::new() });
    PLANS.fetch_add(1, Ordering::Relaxed);
}

/// The end of that; the steps that there were.
pub fn work_below(top: &Path) -> Vec<String> {
    let mut faults = FAULTS.lock().unwrap();
    let at = faults.iter().position(|plan| plan.top == top).unwrap();
    PLANS.fetch_sub(1, Ordering::Relaxed);
    faults.swap_remove(at).steps
}

/// Whether this step fails, with errno set.
fn fails(call: &str, path: impl Fn() -> Option<PathBuf>) -> bool {
    if kills(call, &path) {
        return true;
    }
    if PLANS.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let Some(path) = path() else { return false };
    let mut faults = FAULTS.lock().unwrap();
    let Some(plan) = faults.iter_mut().find(|plan| path.starts_with(&plan.top)) else {
        return false;
    };
    let step = plan.steps.len();
    plan.steps.push(format!("{call} {}", path.display()));
    let fault = plan.fault;
    let fails = step == fault.after || (fault.for_good && step > fault.after);
    if fails {
        // SAFETY: the place of this thread's errno.
        unsafe { *libc::__errno_location() = fault.errno };
    }
    fails
}

/// The same for the ranks of a job in this process.
fn kills(call: &str, path: impl FnOnce() -> Option<PathBuf>) -> bool {
    let Some(errno) = mortal::step(call, path) else { return false };
    // SAFETY: the place of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    true
}

/// A call has come to its end that changes names.
fn noted(result: c_int, change: Option<super::power::Change>) -> c_int {
    if result >= 0 && change.is_some() {
        let _ = with_power(|power| power.done(change));
    }
    result
}

/// Whether a careless program leaves this fsync out.
fn is_unsynced(descriptor: c_int) -> bool {
    if ![Careless::Data, Careless::Records, Careless::Directories].into_iter().any(is_careless) {
        return false;
    }
    let Some(path) = opened(descriptor) else { return false };
    let is_record = path.extension().is_some_and(|end| end == "scrtmp");
    is_careless(match (path.is_dir(), is_record) {
        (true, _) => Careless::Directories,
        (false, true) => Careless::Records,
        (false, false) => Careless::Data,
    })
}

/// The final name of a temporary that a careless program gives it at once.
fn named_at_once(temporary: &Path) -> Option<PathBuf> {
    let name = temporary.file_name()?.to_str()?.strip_prefix('.')?;
    let record = || Some(name.strip_suffix(".scrtmp")?.rsplit_once('.')?.0);
    let staged = || Some(name.rsplit_once(".scr-")?.0);
    let at_once = match () {
        () if is_careless(Careless::RecordInPlace) => record(),
        () if is_careless(Careless::FlushInPlace) => staged(),
        () => None,
    };
    Some(temporary.with_file_name(at_once?))
}

/// A name relative to an open directory.
fn named_in(directory: c_int, name: *const c_char) -> Option<PathBuf> {
    let name = named(name)?;
    match directory {
        libc::AT_FDCWD => Some(name),
        _ => Some(opened(directory)?.join(name)),
    }
}

fn named(name: *const c_char) -> Option<PathBuf> {
    // SAFETY: libc's callers give a string that ends.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

fn opened(descriptor: c_int) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(descriptor: c_int) -> c_int {
    if fails("fsync", || opened(descriptor)) {
        return -1;
    }
    if is_unsynced(descriptor) {
        return 0;
    }
    let _ = with_power(|power| opened(descriptor).map(|path| power.synced(&path)));
    if let Some(path) = opened(descriptor) {
        let mut noted = NOTED.lock().unwrap();
        let watched = noted.iter_mut().filter(|(top, _)| path.starts_with(top));
        watched.for_each(|(_, found)| found.push(path.clone()));
    }
    // SAFETY: takes any number, and is what libc's does.
    unsafe { libc::syscall(libc::SYS_fsync, descriptor) as c_int }
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    if fails("rename", || named(to)) {
        return -1;
    }
    if named(from).is_some_and(|from| named_at_once(&from).is_some() && !from.exists()) {
        return 0;
    }
    let change = with_power(|power| power.moves(&named(from)?, &named(to)?)).flatten();
    let here = libc::AT_FDCWD;
    // SAFETY: the caller's strings, and what libc's does.
    let result = unsafe { libc::syscall(libc::SYS_renameat2, here, from, here, to, 0) as c_int };
    noted(result, change)
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn mkdir(name: *const c_char, mode: libc::mode_t) -> c_int {
    if fails("mkdir", || named(name)) {
        return -1;
    }
    let change = with_power(|power| power.makes(&named(name)?)).flatten();
    // SAFETY: the caller's string, and what libc's does.
    noted(unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, name, mode) as c_int }, change)
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn unlink(name: *const c_char) -> c_int {
    if fails("unlink", || named(name)) {
        return -1;
    }
    if is_careless(Careless::Removal) {
        return 0;
    }
    let change = with_power(|power| power.removes(&named(name)?)).flatten();
    // SAFETY: the caller's string, and what libc's does.
    noted(unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, name, 0) as c_int }, change)
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn unlinkat(directory: c_int, name: *const c_char, flags: c_int) -> c_int {
    if fails("unlinkat", || named_in(directory, name)) {
        return -1;
    }
    if is_careless(Careless::Removal) {
        return 0;
    }
    let change = with_power(|power| power.removes(&named_in(directory, name)?)).flatten();
    // SAFETY: the caller's string, and what libc's does.
    noted(unsafe { libc::syscall(libc::SYS_unlinkat, directory, name, flags) as c_int }, change)
}

/// In the place of libc's in this program, where the mode comes with or without a name.
#[unsafe(no_mangle)]
pub extern "C" fn open64(name: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    if flags & libc::O_CREAT != 0 && fails("open", || named(name)) {
        return -1;
    }
    let makes = flags & libc::O_CREAT != 0;
    if !makes && mortal::reads_nothing(|| named(name)) {
        // SAFETY: the place of this thread's errno.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    let change = with_power(|power| power.makes(&named(name).filter(|_| makes)?)).flatten();
    // SAFETY: the caller's string, and what libc's does.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name, flags, mode) as c_int };
    if makes && let Some(target) = named(name).and_then(|name| named_at_once(&name)) {
        let target = std::ffi::CString::new(target.into_os_string().as_bytes()).unwrap();
        let here = libc::AT_FDCWD;
        // SAFETY: two strings that end.
        unsafe { libc::syscall(libc::SYS_renameat2, here, name, here, target.as_ptr(), 0) };
    }
    noted(opened, change)
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn write(descriptor: c_int, from: *const c_void, count: usize) -> isize {
    if fails("write", || opened(descriptor)) {
        return -1;
    }
    // SAFETY: the caller's bytes, and what libc's does.
    unsafe { libc::syscall(libc::SYS_write, descriptor, from, count) as isize }
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    if kills("fdatasync", || opened(descriptor)) {
        return -1;
    }
    // SAFETY: takes any number, and is what libc's does.
    unsafe { libc::syscall(libc::SYS_fdatasync, descriptor) as c_int }
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn ftruncate64(descriptor: c_int, size: libc::off64_t) -> c_int {
    if kills("ftruncate", || opened(descriptor)) {
        return -1;
    }
    // SAFETY: takes any number, and is what libc's does.
    unsafe { libc::syscall(libc::SYS_ftruncate, descriptor, size) as c_int }
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn mkdirat(directory: c_int, name: *const c_char, mode: libc::mode_t) -> c_int {
    if kills("mkdir", || named_in(directory, name)) {
        return -1;
    }
    let change = with_power(|power| power.makes(&named_in(directory, name)?)).flatten();
    // SAFETY: the caller's string, and what libc's does.
    noted(unsafe { libc::syscall(libc::SYS_mkdirat, directory, name, mode) as c_int }, change)
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn rmdir(name: *const c_char) -> c_int {
    if kills("rmdir", || named(name)) {
        return -1;
    }
    // SAFETY: the caller's string, and what libc's does.
    unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, name, libc::AT_REMOVEDIR) as c_int }
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn linkat(
    from_directory: c_int,
    from: *const c_char,
    directory: c_int,
    name: *const c_char,
    flags: c_int,
) -> c_int {
    if kills("link", || named_in(directory, name)) {
        return -1;
    }
    // SAFETY: the caller's strings, and what libc's does.
    unsafe {
        libc::syscall(libc::SYS_linkat, from_directory, from, directory, name, flags) as c_int
    }
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn flock(descriptor: c_int, operation: c_int) -> c_int {
    // SAFETY: takes any number, and is what libc's does.
    let result = unsafe { libc::syscall(libc::SYS_flock, descriptor, operation) as c_int };
    if result == 0 {
        mortal::locked(descriptor, operation & libc::LOCK_UN == 0);
    }
    result
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn close(descriptor: c_int) -> c_int {
    mortal::locked(descriptor, false);
    // SAFETY: the caller's descriptor, and what libc's does.
    unsafe { libc::syscall(libc::SYS_close, descriptor) as c_int }
}
