//! A table of functions that take no part: the real call is made, and nothing is followed.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicU64;

use scr_abi::{
    ABI_VERSION, Engine, EntryFn, Host, Idle, PathAnswer, accesses::AccessLog, file_mark,
};

/// A table of which some functions do something begins with this one.
pub(crate) const NOTHING: Engine = Engine {
    size: size_of::<Engine>(),
    version: ABI_VERSION,
    refusal: nowhere,
    init,
    prefix: nowhere,
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
    change: pass,
    unlink: pass,
    rename,
    link,
    rmdir: pass,
    list,
    address: nowhere,
    alias,
    turns,
    has,
    file_size,
    hints,
};

extern "C" fn init(_host: *const Host) -> c_int {
    0
}

extern "C" fn nowhere() -> *const c_char {
    std::ptr::null()
}

extern "C" fn turns() -> *const AtomicU64 {
    std::ptr::null()
}

extern "C" fn has(_token: u64, _start: u64, _end: u64) -> c_int {
    1
}

extern "C" fn file_size(_token: u64) -> u64 {
    0
}

extern "C" fn hints(_comm: usize, _path: *const c_char) -> c_int {
    0
}

extern "C" fn alias(_index: usize, _place: *mut *const c_char) -> *const c_char {
    std::ptr::null()
}

extern "C" fn sync(_comm: usize, _kind: c_int) {}

pub(crate) extern "C" fn idle() -> Idle {
    let (points, round) = (std::ptr::null(), std::ptr::null());
    Idle { left: std::ptr::null(), world: 0, mask: 0, thread: 0, points, round }
}

extern "C" fn note(_what: c_int, _path: *const c_char) {}

extern "C" fn file_open(_comm: usize, _path: *const c_char, _creates: c_int) -> *const c_char {
    std::ptr::null()
}

extern "C" fn file_opened(_comm: usize, _opened: c_int) -> c_int {
    file_mark::ALONE
}

extern "C" fn file_call(_mark: c_int, _closes: c_int) {}

extern "C" fn opened(_token: u64, _fd: c_int, _errno: c_int) -> c_int {
    0
}

extern "C" fn log(_token: u64) -> *const AccessLog {
    std::ptr::null()
}

extern "C" fn written(_token: u64, _fd: c_int, _bytes: u64, _crc32: u32) {}

extern "C" fn reuse(_token: u64, _fd: c_int) -> c_int {
    -1
}

extern "C" fn closed(_token: u64) -> c_int {
    0
}

extern "C" fn failed(_token: u64, _errno: c_int) {}

extern "C" fn evacuate(_token: u64, _fd: c_int, _errno: c_int) -> c_int {
    -1
}

extern "C" fn reserve(_token: u64, _fd: c_int, _offset: u64, _bytes: u64) -> c_int {
    0
}

// The caller has zeroed the verdict but for its path: that is `kind::PASS`.
extern "C" fn open(_path: *const c_char, _flags: c_int, _mode: u32, _verdict: *mut PathAnswer) {}

extern "C" fn lookup(_path: *const c_char, _compares: c_int, _verdict: *mut PathAnswer) {}

extern "C" fn pass(_path: *const c_char, _verdict: *mut PathAnswer) {}

extern "C" fn rename(_from: *const c_char, _to: *const c_char, _verdict: *mut PathAnswer) {}

extern "C" fn link(
    _target: *const c_char,
    _path: *const c_char,
    _symbolic: c_int,
    _verdict: *mut PathAnswer,
) {
}

extern "C" fn list(_path: *const c_char, _entry: EntryFn, _context: *mut c_void) -> c_int {
    0
}
