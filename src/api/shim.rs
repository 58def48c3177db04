//! The engine table that the preload library opens ([`scr_abi`]). Nothing of ours may reach the
//! program as a crash: after the first panic, which is reported, the program's calls pass.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use scr_abi::{
    ABI_VERSION, Engine, EntryFn, Host, Idle, PATH_BYTES, PathAnswer, StatAnswer,
    accesses::AccessLog, event, file_mark, kind, sync_kind, wire::FileStat,
};
use scr_core::machine::SyncKind;
use scr_core::session::{self, Alias, Answer, Door, Note, Session};
use scr_core::streams::{STREAMS, WORLD};

use super::parted;
use crate::engine::{self, FileCalls};

static TABLE: Engine = Engine {
    size: size_of::<Engine>(),
    version: ABI_VERSION,
    refusal,
    init,
    prefix,
    sync,
    idle,
    note,
    file_open,
    file_opened,
    file_call,
    open,
    opened,
    log,
    written,
    reuse,
    closed,
    failed,
    evacuate,
    reserve,
    lookup,
    change,
    unlink,
    rename,
    link,
    rmdir,
    list,
    address,
    alias,
    turns,
    has: parted::has,
    file_size: parted::file_size,
    hints: parted::hints,
};

#[unsafe(no_mangle)]
pub extern "C" fn scr_engine_table() -> *const Engine {
    &raw const TABLE
}

static PREFIX: OnceLock<CString> = OnceLock::new();

/// A panic ends routing, and yields `fallback`.
fn guarded<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        if let Some(session) = engine::session() {
            session.stores.give_up_routing("an internal error (a panic, see above)");
        }
        fallback
    })
}

pub(super) fn with_session<T>(fallback: T, body: impl FnOnce(&'static Session) -> T) -> T {
    let Some(session) = engine::session() else { return fallback };
    guarded(fallback, || body(session))
}

/// Reads a path; a null text is an empty one. Safety: `text` is null or NUL-terminated and lives
/// until the result is dropped.
pub(super) unsafe fn path_of<'a>(text: *const c_char) -> &'a Path {
    if text.is_null() {
        return Path::new("");
    }
    // SAFETY: not null, NUL-terminated by this function's contract.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    Path::new(OsStr::from_bytes(bytes))
}

/// Answers what `ask` says of `path`, or the real call where there is no session.
fn answer(
    path: *const c_char,
    verdict: *mut PathAnswer,
    ask: impl FnOnce(&Session, &Path) -> Answer,
) {
    // SAFETY: the shim passes a string that lives during the call.
    let path = unsafe { path_of(path) };
    let answer = with_session(Answer::PASS, |session| ask(session, path));
    // SAFETY: the shim passes a verdict that nobody else uses, zeroed but for its path.
    unsafe {
        match answer {
            Answer::Pass { token } => (*verdict).token = token,
            Answer::Foreign => (*verdict).foreign = 1,
            Answer::Redirect { path, .. } if path.as_os_str().len() >= PATH_BYTES => {
                (*verdict).kind = kind::FAIL;
                (*verdict).errno = libc::ENAMETOOLONG;
            }
            Answer::Redirect { path, token } => {
                let path = path.as_os_str().as_bytes();
                // The path is not initialised: no reference to the whole is made.
                let to = (&raw mut (*verdict).path).cast::<u8>();
                to.copy_from_nonoverlapping(path.as_ptr(), path.len());
                to.add(path.len()).write(0);
                (*verdict).kind = kind::REDIRECT;
                (*verdict).token = token;
            }
            Answer::Fail(code) => {
                (*verdict).kind = kind::FAIL;
                (*verdict).errno = code;
            }
            Answer::Done => (*verdict).kind = kind::DONE,
            Answer::Known(known) => {
                (*verdict).kind = kind::STAT;
                (*verdict).stat = stat_answer(known);
            }
        }
    }
}

fn stat_answer(known: FileStat) -> StatAnswer {
    // SAFETY: these two have no preconditions and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    known.answer(uid, gid)
}

struct Shim(Host);

// SAFETY: functions that any thread may call, and a string that lives and stays for ever.
unsafe impl Send for Shim {}
// SAFETY: as above.
unsafe impl Sync for Shim {}

impl session::Host for Shim {
    fn owns_process(&self) -> bool {
        true
    }

    fn door(&self) -> Door {
        Door::Files
    }

    fn mpi(&self) -> String {
        crate::engine::mpi_version()
    }

    fn end_process(&self, status: i32) -> ! {
        engine::end_process(status)
    }

    fn may_be_called(&self) -> bool {
        // The shim opens this library for itself alone: a program that sees it is linked with it.
        // RTLD_DEFAULT would look from here, and find it always.
        // SAFETY: the program itself is open already, and stays so.
        let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
        // SAFETY: a handle or null, which finds nothing of ours; the symbol is only looked for.
        !program.is_null() && !unsafe { libc::dlsym(program, c"SCR_Init".as_ptr()) }.is_null()
    }

    fn enter_thread(&self) {
        (self.0.enter_thread)();
    }

    fn leave_thread(&self) {
        (self.0.leave_thread)();
    }

    fn names_changed(&self) {
        (self.0.names_changed)();
    }

    fn wake(&self, token: u64) {
        (self.0.wake)(token);
    }

    fn move_out(&self, token: u64) {
        (self.0.move_out)(token);
    }

    fn step_out(&self) -> u32 {
        (self.0.step_out)()
    }

    fn step_in(&self, before: u32) {
        (self.0.step_in)(before);
    }
}

extern "C" fn refusal() -> *const c_char {
    static WHY: OnceLock<Option<CString>> = OnceLock::new();
    let find = || CString::new(engine::refusal()?.replace('\0', " ")).ok();
    let why = WHY.get_or_init(|| guarded(None, find));
    why.as_ref().map_or(std::ptr::null(), |why| why.as_ptr())
}

extern "C" fn init(host: *const Host) -> c_int {
    guarded(0, || {
        // SAFETY: the shim passes a table that lives for the process's life.
        let host = unsafe { *host };
        if host.size < size_of::<Host>() {
            return 0;
        }
        let host: Arc<dyn session::Host> = Arc::new(Shim(host));
        let Some(session) = engine::start(host) else { return 0 };
        let prefix = session.rank.prefix().as_os_str().as_bytes().to_vec();
        let Ok(prefix) = CString::new(prefix) else { return 0 };
        PREFIX.get_or_init(|| prefix);
        1
    })
}

extern "C" fn prefix() -> *const c_char {
    PREFIX.get().map_or(std::ptr::null(), |prefix| prefix.as_ptr())
}

extern "C" fn address() -> *const c_char {
    static ADDRESS: OnceLock<Option<CString>> = OnceLock::new();
    let address = ADDRESS.get_or_init(|| CString::new(engine::session()?.address()?).ok());
    address.as_ref().map_or(std::ptr::null(), |address| address.as_ptr())
}

extern "C" fn alias(index: usize, place: *mut *const c_char) -> *const c_char {
    static ALIASES: OnceLock<Vec<(CString, CString)>> = OnceLock::new();
    let all = ALIASES.get_or_init(|| {
        let Some(session) = engine::session() else { return Vec::new() };
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
        let names = session.stores.aliases().iter();
        let pair =
            |it: &Alias| Some((text(&session.rank.prefix().join(&it.name))?, text(&it.place)?));
        names.filter_map(pair).collect()
    });
    let Some((name, to)) = all.get(index) else { return std::ptr::null() };
    // SAFETY: the shim passes a place for the answer.
    unsafe { *place = to.as_ptr() };
    name.as_ptr()
}

extern "C" fn turns() -> *const AtomicU64 {
    engine::session().map_or(std::ptr::null(), |session| session.node.turns())
}

extern "C" fn sync(comm: usize, kind: c_int) {
    let kind = match kind {
        sync_kind::CONSTRUCTOR => SyncKind::Constructor,
        sync_kind::BARRIER => SyncKind::Barrier,
        sync_kind::FILE_OPEN if engine::counts_files() => SyncKind::Barrier,
        sync_kind::FILE_OPEN => return,
        _ => SyncKind::Collective,
    };
    guarded((), || engine::sync(comm, kind));
}

extern "C" fn idle() -> Idle {
    match engine::idle() {
        Some((left, calls)) => {
            let (points, round) = (session_points(), session_round());
            Idle { left, world: calls.world, mask: calls.mask, thread: calls.thread, points, round }
        }
        None => {
            let (points, round) = (std::ptr::null(), std::ptr::null());
            Idle { left: std::ptr::null(), world: 0, mask: 0, thread: 0, points, round }
        }
    }
}

fn session_points() -> *const AtomicU64 {
    engine::session().map_or(std::ptr::null(), |session| session.conference.points())
}

fn session_round() -> *const AtomicU64 {
    engine::session().map_or(std::ptr::null(), |session| session.handles.round())
}

extern "C" fn log(token: u64) -> *const AccessLog {
    let log = || with_session(None, |session| session.handles.log(token));
    log().map_or(std::ptr::null(), std::ptr::from_ref)
}

extern "C" fn note(what: c_int, path: *const c_char) {
    // SAFETY: the shim passes null or a string that lives during the call.
    let path = unsafe { path_of(path) };
    if what == event::DYNAMIC_PROCESSES {
        engine::expect_others();
    }
    let note = match what {
        event::EXIT => Note::Exit,
        event::LEAVE => Note::Leave,
        event::FINALIZE_END => Note::Finalized,
        event::FORKED_CHILD => Note::ForkedChild,
        event::MKDIR => Note::Mkdir(path),
        event::MAKE => Note::Make(path),
        event::MISLED => Note::Misled(path),
        event::ATTRIBUTES => Note::Attributes(path),
        event::UNREADABLE => Note::Unreadable(path),
        _ => return,
    };
    with_session((), |session| session.note(note));
}

extern "C" fn file_open(comm: usize, path: *const c_char, mode: c_int) -> *const c_char {
    static STORES: Mutex<BTreeMap<PathBuf, CString>> = Mutex::new(BTreeMap::new());
    // SAFETY: the shim passes a string that lives during the call.
    let path = unsafe { path_of(path) };
    guarded(std::ptr::null(), || {
        let store = engine::file_open(comm, path, mode);
        let text = store.as_ref().and_then(|it| CString::new(it.as_os_str().as_bytes()).ok());
        let (Some(store), Some(text)) = (store, text) else { return std::ptr::null() };
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.entry(store).or_insert(text).as_ptr()
    })
}

extern "C" fn file_opened(comm: usize, opened: c_int) -> c_int {
    guarded(file_mark::ALONE, || match engine::file_opened(comm, opened != 0) {
        FileCalls::OfOneRank => file_mark::ALONE,
        FileCalls::Counted(WORLD) => file_mark::OF_WORLD,
        FileCalls::Counted(stream) => MARK_OF_STREAMS + stream as c_int,
        FileCalls::Uncounted => UNCOUNTED,
        FileCalls::OfGroup(group) => MARK_OF_GROUPS + group as c_int,
    })
}

const UNCOUNTED: c_int = file_mark::OF_WORLD + 1;
const MARK_OF_STREAMS: c_int = UNCOUNTED + 1;
const MARK_OF_GROUPS: c_int = MARK_OF_STREAMS + STREAMS as c_int;

extern "C" fn file_call(mark: c_int, closes: c_int) {
    let number = |first: c_int| usize::try_from(mark - first).ok();
    let group = number(MARK_OF_GROUPS).map(FileCalls::OfGroup);
    let calls = group.or_else(|| number(MARK_OF_STREAMS).map(FileCalls::Counted));
    let calls = calls.unwrap_or(FileCalls::Uncounted);
    guarded((), || engine::file_call(calls, closes != 0));
}

extern "C" fn open(path: *const c_char, flags: c_int, _mode: u32, verdict: *mut PathAnswer) {
    answer(path, verdict, |session, path| session.names.open(path, flags));
}

extern "C" fn opened(token: u64, fd: c_int, errno: c_int) -> c_int {
    with_session(0, |session| c_int::from(!session.handles.opened(token, fd, errno)))
}

extern "C" fn written(token: u64, fd: c_int, bytes: u64, crc32: u32) {
    with_session((), |session| session.handles.written(token, fd, bytes, crc32));
}

extern "C" fn reuse(token: u64, fd: c_int) -> c_int {
    with_session(-1, |session| session.stores.reuse(token, fd))
}

extern "C" fn closed(token: u64) -> c_int {
    with_session(0, |session| c_int::from(!session.handles.closed(token)))
}

extern "C" fn failed(token: u64, errno: c_int) {
    with_session((), |session| session.handles.failed(token, errno));
}

extern "C" fn evacuate(token: u64, fd: c_int, errno: c_int) -> c_int {
    with_session(-1, |session| session.names.evacuate(token, fd, errno))
}

extern "C" fn reserve(token: u64, fd: c_int, offset: u64, bytes: u64) -> c_int {
    with_session(0, |session| c_int::from(!session.stores.reserve(token, fd, offset, bytes)))
}

extern "C" fn lookup(path: *const c_char, _compares: c_int, verdict: *mut PathAnswer) {
    answer(path, verdict, |session, path| session.names.lookup(path));
}

extern "C" fn change(path: *const c_char, verdict: *mut PathAnswer) {
    answer(path, verdict, |session, path| session.names.change(path));
}

extern "C" fn unlink(path: *const c_char, verdict: *mut PathAnswer) {
    answer(path, verdict, |session, path| session.names.unlink(path));
}

extern "C" fn rename(from: *const c_char, to: *const c_char, verdict: *mut PathAnswer) {
    // SAFETY: the shim passes a string that lives during the call.
    let to = unsafe { path_of(to) };
    answer(from, verdict, |session, from| session.names.rename(from, to));
}

extern "C" fn link(
    target: *const c_char,
    path: *const c_char,
    symbolic: c_int,
    verdict: *mut PathAnswer,
) {
    // SAFETY: the shim passes a string that lives during the call.
    let target = unsafe { path_of(target) };
    answer(path, verdict, |session, path| session.names.link(target, path, symbolic != 0));
}

extern "C" fn rmdir(path: *const c_char, verdict: *mut PathAnswer) {
    answer(path, verdict, |session, path| session.names.rmdir(path));
}

extern "C" fn list(path: *const c_char, entry: EntryFn, context: *mut c_void) -> c_int {
    // SAFETY: the shim passes a string that lives during the call.
    let path = unsafe { path_of(path) };
    let entries = with_session(Vec::new(), |session| session.names.list(path));
    let mut count = 0;
    for one in entries {
        let Ok(name) = CString::new(one.name) else { continue };
        let d_type = if one.is_dir { libc::DT_DIR } else { libc::DT_REG };
        entry(context, name.as_ptr(), d_type, one.ino, c_int::from(one.hide));
        count += 1;
    }
    count
}
