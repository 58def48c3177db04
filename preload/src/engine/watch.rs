//! A rank that is watched (`scr learn`): what it does to files below the prefix is written to a
//! file of its own, and done as without us. No engine is opened, nothing is cached; in a run that
//! is not watched, nothing of this is used.
//!
//! A line an event, `<seconds> <sync points> <what> <arguments>`, names with their control
//! characters escaped:
//! * `open <token> <flags> <changed> <name>`, `close <token> <size> <changed>`; `<changed>` is the
//!   file's time of modification, 0 if there is none;
//! * `traits <token> <bits>`, `did <token> <what> <start> <end>`, before its close: what was done
//!   to the file (`scr_abi::accesses`);
//! * `lost <name>`: a file that this rank had closed is gone or has another size, past a collective
//!   and before this rank opens the next one or ends; who has done that may be told, or a child;
//! * `rename <from> TAB <to>`, `unlink <name>`, `link <target> TAB <name>`, `mpi <name>`;
//! * `end`, `cut` (there were too many).
//!
//! The first line is `watch 2 <rank> <host> <prefix>`.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use scr_abi::accesses::{Access, AccessLog, Deed, Moment, Within, trait_bit};
use scr_abi::{Engine, Idle, PathAnswer, TOKEN_LOGGED, event, file_mark, messages};

use super::nothing::{self, NOTHING};
use crate::base::message;

pub(super) const VARIABLE: &str = "SCR_SHIM_WATCH";
const LINES_MAX: u64 = 200_000;

struct Watch {
    file: File,
    prefix: CString,
    process: u32,
    lines: AtomicU64,
    tokens: AtomicU64,
    syncs: AtomicU64,
    /// The names of open files, by token.
    open: Mutex<HashMap<u64, Vec<u8>>>,
    closed: Mutex<ClosedFiles>,
    logs: Mutex<WatchLogs>,
}

/// Files that have not been looked for since, by name, with their size and the sync points then.
#[derive(Default)]
struct ClosedFiles {
    looked: u64,
    files: HashMap<Vec<u8>, (u64, u64)>,
}

/// WatchLogs of descriptors that are open, and those that wait for others.
#[derive(Default)]
struct WatchLogs {
    open: HashMap<u64, &'static AccessLog>,
    spare: Vec<&'static AccessLog>,
}

impl Watch {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Vec<u8>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    fn closed(&self) -> MutexGuard<'_, ClosedFiles> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logs(&self) -> MutexGuard<'_, WatchLogs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static WATCH: OnceLock<Option<Watch>> = OnceLock::new();

pub(crate) fn table() -> Option<Engine> {
    let directory = PathBuf::from(std::env::var_os(VARIABLE)?);
    let begin = || match begin(&directory) {
        Ok(watch) => Some(watch),
        Err(error) => {
            let place = directory.display();
            message::complain(
                messages::NOT_WATCHED,
                &format!("this run is not watched: {place}: {error}"),
            );
            None
        }
    };
    WATCH.get_or_init(begin).as_ref()?;
    Some(Engine {
        prefix,
        sync,
        note,
        file_open,
        open,
        opened,
        idle,
        file_opened,
        log,
        closed,
        unlink,
        rename,
        link,
        ..NOTHING
    })
}

fn begin(directory: &std::path::Path) -> std::io::Result<Watch> {
    let place = match std::env::var_os("SCR_PREFIX").filter(|value| !value.is_empty()) {
        Some(prefix) => std::fs::canonicalize(prefix)?,
        None => std::env::current_dir()?,
    };
    let process = std::process::id();
    let rank = message::rank().unwrap_or_else(|| "-".to_owned());
    let mut name = [0; 256];
    // SAFETY: the buffer is writable for its length, and its last byte stays 0.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let host = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy();
    let path = directory.join(format!("{host}.{process}"));
    let mut file = OpenOptions::new().append(true).create_new(true).open(path)?;
    let prefix = CString::new(place.as_os_str().as_bytes())?;
    writeln!(file, "watch 2 {rank} {host} {}", escaped(prefix.to_bytes()))?;
    let [lines, tokens, syncs] = [0, 1, 0].map(AtomicU64::new);
    Ok(Watch {
        file,
        prefix,
        process,
        lines,
        tokens,
        syncs,
        open: Mutex::default(),
        closed: Mutex::default(),
        logs: Mutex::default(),
    })
}

fn escaped(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.chars()
        .flat_map(|c| match c {
            '\\' => "\\\\".chars().collect::<Vec<char>>(),
            c if c.is_control() => c.escape_default().collect(),
            c => vec![c],
        })
        .collect()
}

fn name_of(path: *const c_char) -> Vec<u8> {
    if path.is_null() {
        return Vec::new();
    }
    // SAFETY: not null, so a C string by the table's contract.
    unsafe { CStr::from_ptr(path) }.to_bytes().to_vec()
}

fn watch() -> Option<&'static Watch> {
    WATCH.get()?.as_ref()
}

/// A child that a fork has made writes none.
fn tell(text: std::fmt::Arguments<'_>) {
    let Some(watch) = watch().filter(|watch| watch.process == std::process::id()) else { return };
    let line = watch.lines.fetch_add(1, Ordering::Relaxed);
    if line > LINES_MAX {
        return;
    }
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64();
    let syncs = watch.syncs.load(Ordering::Relaxed);
    let line = match line {
        LINES_MAX => format!("{now:.6} {syncs} cut\n"),
        _ => format!("{now:.6} {syncs} {text}\n"),
    };
    // One write: a run that is killed leaves whole lines. Without them there is less to see.
    let _ = (&watch.file).write_all(line.as_bytes());
}

extern "C" fn prefix() -> *const c_char {
    watch().map_or(std::ptr::null(), |watch| watch.prefix.as_ptr())
}

extern "C" fn sync(_comm: usize, _kind: c_int) {
    if let Some(watch) = watch() {
        watch.syncs.fetch_add(1, Ordering::Relaxed);
    }
}

extern "C" fn note(what: c_int, _path: *const c_char) {
    if what == event::FINALIZE_BEGIN {
        tell_lost(u64::MAX);
        tell(format_args!("end"));
    }
}

/// Looks once for each file that was closed before so many sync points.
fn tell_lost(syncs: u64) {
    let Some(watch) = watch() else { return };
    let mut closed = watch.closed();
    if std::mem::replace(&mut closed.looked, syncs) == syncs {
        return;
    }
    for (name, (size, _)) in closed.files.extract_if(|_, (_, then)| *then < syncs) {
        let now = std::fs::metadata(OsStr::from_bytes(&name)).map(|about| about.len());
        if now.ok() != Some(size) {
            tell(format_args!("lost {}", escaped(&name)));
        }
    }
}

extern "C" fn file_open(_comm: usize, path: *const c_char, _creates: c_int) -> *const c_char {
    tell(format_args!("mpi {}", escaped(&name_of(path))));
    std::ptr::null()
}

extern "C" fn open(path: *const c_char, flags: c_int, _mode: u32, verdict: *mut PathAnswer) {
    let Some(watch) = watch() else { return };
    let name = name_of(path);
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let token = if writes { watch.tokens.fetch_add(1, Ordering::Relaxed) } else { 0 };
    if writes {
        tell_lost(watch.syncs.load(Ordering::Relaxed));
        watch.closed().files.remove(&name);
    }
    let about = std::fs::metadata(OsStr::from_bytes(&name)).ok();
    let size = about.as_ref().map_or(0, Metadata::len);
    if writes || about.as_ref().is_some_and(|about| !about.is_dir()) {
        let changed = about.map_or(0, changed);
        tell(format_args!("open {token} {flags} {changed} {}", escaped(&name)));
    }
    let token = if writes { logged(watch, token, flags, size) } else { token };
    if writes {
        watch.open().insert(token, name);
    }
    // SAFETY: the shim's verdict, which nobody else uses meanwhile; only a plain field is written.
    unsafe { (*verdict).token = token };
}

/// The time is in nanoseconds.
fn changed(about: Metadata) -> i64 {
    about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec())
}

extern "C" fn opened(token: u64, fd: c_int, _errno: c_int) -> c_int {
    if fd < 0 {
        closed(token);
    }
    0
}

/// Has what is done to a file logged that is about to be opened; its `size` is what it is now.
/// Returns the token with the bit that says so.
fn logged(watch: &Watch, token: u64, flags: c_int, size: u64) -> u64 {
    let mut logs = watch.logs();
    let Some(log) = logs.spare.pop().or_else(new_log) else { return token };
    let bits = [
        (size == 0, trait_bit::MADE),
        (flags & libc::O_APPEND != 0, trait_bit::APPENDS),
        (flags & libc::O_DIRECT != 0, trait_bit::UNSEEN),
    ];
    log.mark(bits.iter().filter(|(is, _)| *is).fold(0, |all, (_, bit)| all | bit));
    if size > 0 && flags & libc::O_TRUNC != 0 {
        let (deed, within) = (Deed::Cut, Within::Nothing);
        let stamp = Moment::at(watch.syncs.load(Ordering::Relaxed));
        log.add(Access { deed, within, stamp, start: 0, end: 0 });
    }
    logs.open.insert(token | TOKEN_LOGGED, log);
    token | TOKEN_LOGGED
}

fn new_log() -> Option<&'static AccessLog> {
    let bytes = size_of::<AccessLog>();
    // SAFETY: the kernel chooses the address; nothing else knows this memory.
    let start = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0)
    };
    // SAFETY: so long, aligned to a page, never unmapped, and all zero, which is an empty log.
    (start != libc::MAP_FAILED).then(|| unsafe { &*start.cast_const().cast() })
}

extern "C" fn log(token: u64) -> *const AccessLog {
    let log = watch().and_then(|watch| watch.logs().open.get(&token).copied());
    log.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Tells what was done through a descriptor that is closed.
fn tell_done(token: u64) {
    let Some(watch) = watch() else { return };
    let Some(log) = watch.logs().open.remove(&token) else { return };
    let token = token & !TOKEN_LOGGED;
    tell(format_args!("traits {token} {}", log.traits()));
    log.all().for_each(|one| {
        tell(format_args!("did {token} {} {} {}", one.tag(), one.start, one.end));
    });
    log.clear();
    watch.logs().spare.push(log);
}

/// How many ranks took part nobody here knows: all, mostly, and else the counts of ranks differ.
extern "C" fn file_opened(_comm: usize, opened: c_int) -> c_int {
    if opened == 0 {
        return file_mark::ALONE;
    }
    sync(0, 0);
    file_mark::OF_WORLD
}

extern "C" fn idle() -> Idle {
    let points = watch().map_or(std::ptr::null(), |watch| &raw const watch.syncs);
    Idle { points, ..nothing::idle() }
}

extern "C" fn closed(token: u64) -> c_int {
    tell_done(token);
    let Some(watch) = watch() else { return 0 };
    let name = watch.open().remove(&token);
    if let Some(name) = name {
        let about = std::fs::metadata(OsStr::from_bytes(&name)).ok();
        let (size, changed) = about.map_or((0, 0), |about| (about.len(), changed(about)));
        let token = token & !TOKEN_LOGGED;
        tell(format_args!("close {token} {size} {changed}"));
        if changed != 0 {
            let syncs = watch.syncs.load(Ordering::Relaxed);
            watch.closed().files.insert(name, (size, syncs));
        }
    }
    0
}

extern "C" fn unlink(path: *const c_char, _verdict: *mut PathAnswer) {
    tell(format_args!("unlink {}", escaped(&name_of(path))));
}

extern "C" fn rename(from: *const c_char, to: *const c_char, _verdict: *mut PathAnswer) {
    let (from, to) = (name_of(from), name_of(to));
    tell(format_args!("rename {}\t{}", escaped(&from), escaped(&to)));
    if let Some(watch) = watch() {
        let mut open = watch.open();
        open.values_mut().filter(|name| **name == from).for_each(|name| name.clone_from(&to));
        let files = &mut watch.closed().files;
        if let Some(file) = files.remove(&from) {
            files.insert(to, file);
        }
    }
}

extern "C" fn link(
    target: *const c_char,
    path: *const c_char,
    _symbolic: c_int,
    _verdict: *mut PathAnswer,
) {
    tell(format_args!("link {}\t{}", escaped(&name_of(target)), escaped(&name_of(path))));
}
