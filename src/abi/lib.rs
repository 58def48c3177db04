//! The contract between the shim and the engine: one versioned table of C functions.
//! [`ABI_VERSION`] and the sizes tell builds apart. The crate has, too, what both libraries need;
//! it needs libc alone, since the shim is loaded into every process of a job.
//!
//! Strings are NUL-terminated and copied, never kept. A path that the shim hands over is absolute,
//! lexically normalised (symlinks resolved but for [`Engine::alias`]), and lies below the prefix.
//! The shim calls with its hook guard held, so the engine's own libc calls on that thread pass
//! through; the engine's threads call [`Host::enter_thread`] first. Only `sync`, `file_opened`,
//! `file_call`, `init` and the finalize pair may communicate. All else is local and quick, but for
//! [`Engine::open`] of a file on another node (docs/internals/threads.md),
//! [`Engine::evacuate`] of one of which each node has a part, and [`Engine::lookup`] of one in a
//! child of a rank.

pub mod accesses;
pub mod bytes;
pub mod messages;
pub mod objects;
pub mod wire;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Raised at every change of the types of this file.
pub const ABI_VERSION: u32 = 24;

/// In [`Idle::left`]: the engine is to be told of each barrier, which carries an agreement.
pub const BARRIERS_CARRY: u32 = 1 << 31;

/// Name of the function that the engine library exports; returns `*const Engine`.
pub const ENTRY: &CStr = c"scr_engine_table";

/// Longest path that a [`PathAnswer`] carries, NUL included.
pub const PATH_BYTES: usize = 4096;

/// A bit of tokens. The descriptor is on a copy that must not change: before the first change
/// through it the shim calls [`Engine::evacuate`] and puts the new descriptor in its place
/// (docs/internals/handles.md). The token stays the same.
pub const TOKEN_LAZY: u64 = 1 << 63;

/// A bit of tokens. What is done to the file through its descriptors is logged: see
/// [`Engine::log`].
pub const TOKEN_LOGGED: u64 = 1 << 62;

/// A bit of tokens. The file will be shorter than [`WORTH_BYTES`], as far as the engine knows: the
/// shim need not follow what is written to it.
pub const TOKEN_SHORT: u64 = 1 << 61;

/// From so many bytes on it pays to take a file's checksum while it is written.
pub const WORTH_BYTES: u64 = 1 << 16;

/// What the shim offers the engine.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Host {
    /// `size_of::<Host>()`.
    pub size: usize,
    /// Marks the calling thread as ours until the matching `leave_thread`: its libc and MPI calls
    /// pass all hooks. Nests. A helper thread calls it once; a callback that MPI starts on a thread
    /// of the program (attribute deletion inside MPI_Finalize) brackets itself with the pair.
    pub enter_thread: extern "C" fn(),
    /// Absolute path of the shim library, for messages.
    pub library_path: *const c_char,
    /// Counts descriptors with this token that are open for writing; 0 for an unknown one.
    pub open_count: extern "C" fn(token: u64) -> c_int,
    /// Undoes one `enter_thread` of the calling thread.
    pub leave_thread: extern "C" fn(),
    /// What was answered with [`PathAnswer::foreign`] no longer holds: the shim asks anew of every
    /// name. Callable from any thread, with locks of the engine held.
    pub names_changed: extern "C" fn(),
    /// Does now for the descriptors of a token what [`TOKEN_LAZY`] puts off. Calls
    /// [`Engine::evacuate`]; no lock of the engine may be held.
    pub wake: extern "C" fn(token: u64),
    /// Has the file of a token moved to the PFS: calls [`Engine::evacuate`] for all tokens that are
    /// open on it. Nothing happens if it is mapped. No lock of the engine may be held.
    pub move_out: extern "C" fn(token: u64),
    /// The calling thread is about to wait for other ranks: until [`Host::step_in`] with what this
    /// returns, signal handlers of the program run on it, and their calls reach the engine. No lock
    /// of the engine may be held.
    pub step_out: extern "C" fn() -> u32,
    /// See [`Host::step_out`].
    pub step_in: extern "C" fn(u32),
}

/// How the hook goes on. Values of [`PathAnswer::kind`].
pub mod kind {
    /// Do the real call with the program's own path.
    pub const PASS: u32 = 0;
    /// Do the real call on [`super::PathAnswer::path`] instead.
    pub const REDIRECT: u32 = 1;
    /// Fail with [`super::PathAnswer::errno`].
    pub const FAIL: u32 = 2;
    /// All done: return 0.
    pub const DONE: u32 = 3;
    /// Answer from [`super::PathAnswer::stat`] (a name whose file is not on this node).
    pub const STAT: u32 = 4;
}

/// The fields of `struct stat` that an answer without a file carries.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StatAnswer {
    /// Size in bytes.
    pub size: u64,
    /// File type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// Stable number of the file in our name space.
    pub ino: u64,
    /// Modification time, seconds.
    pub mtime_seconds: i64,
    /// Modification time, nanoseconds.
    pub mtime_nanoseconds: i64,
}

/// The engine's answer to a path question. The caller zeroes all but [`PathAnswer::path`], which is
/// not even initialised: it is long, and most answers have none.
#[repr(C)]
pub struct PathAnswer {
    /// One of [`kind`].
    pub kind: u32,
    /// For [`kind::FAIL`].
    pub errno: c_int,
    /// Nonzero with [`kind::PASS`]: nothing of ours can ever concern this name, whatever is done to
    /// it, until [`Host::names_changed`] is called. The shim need not ask again.
    pub foreign: u32,
    /// Nonzero: the descriptor that results is tracked; `opened` and `closed` must follow.
    pub token: u64,
    /// For [`kind::STAT`].
    pub stat: StatAnswer,
    /// For [`kind::REDIRECT`]: NUL-terminated.
    pub path: [u8; PATH_BYTES],
}

/// Receives one directory entry: `name`, its `DT_*` type, its number as stat says; `hide` nonzero
/// removes it from the listing.
pub type EntryFn =
    extern "C" fn(context: *mut c_void, name: *const c_char, d_type: u8, ino: u64, hide: c_int);

/// Kinds of synchronising MPI calls, for [`Engine::sync`].
pub mod sync_kind {
    /// Allreduce, Alltoall, ...: every k-th carries the agreement.
    pub const COLLECTIVE: i32 = 0;
    /// Comm_dup, Comm_split, Comm_create, Cart_create: always carries it.
    pub const CONSTRUCTOR: i32 = 1;
    /// Barrier: carries it unless collectives follow one another very fast.
    pub const BARRIER: i32 = 2;
    /// MPI_File_open is about to be called: what a rank has deleted or made for it is heard of
    /// before. As a barrier, if calls on files count.
    pub const FILE_OPEN: i32 = 3;
}

/// Which synchronising calls [`Engine::sync`] need not hear of.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Idle {
    /// So many collectives and barriers on `world` carry nothing: who makes one counts down by one.
    /// Null, or 0 left: the engine is to be told, and of a barrier with [`BARRIERS_CARRY`].
    pub left: *const AtomicU32,
    /// The handle of MPI_COMM_WORLD, as passed.
    pub world: usize,
    /// The bits of a passed handle that count.
    pub mask: usize,
    /// The one thread whose calls count, as pthread_self says; 0: any.
    pub thread: usize,
    /// How many sync points have been entered when none of `left` is left; all bits: that changes
    /// just now. Null: nobody counts.
    pub points: *const AtomicU64,
    /// See [`accesses::Moment`]. Null: nobody counts.
    pub round: *const AtomicU64,
}

/// Noteworthy events, for [`Engine::note`].
pub mod event {
    /// Spawn, connect, accept, join or merge was called: communicators may have ranks of other
    /// worlds from here on.
    pub const DYNAMIC_PROCESSES: i32 = 1;
    /// The process ends (`exit`, `_exit`) and MPI_Finalize was not called. [`LEAVE`] follows.
    pub const EXIT: i32 = 4;
    /// MPI_Finalize is about to be called.
    pub const FINALIZE_BEGIN: i32 = 5;
    /// MPI_Finalize has returned.
    pub const FINALIZE_END: i32 = 6;
    /// The calling process is a forked child: no threads of the engine live in it. No lock may be
    /// taken, since another thread may have held it at the fork.
    pub const FORKED_CHILD: i32 = 7;
    /// The program made the directory `path` (already done, on the PFS).
    pub const MKDIR: i32 = 8;
    /// The program changed mode, owner or times of a file that was redirected.
    pub const ATTRIBUTES: i32 = 9;
    /// After [`EXIT`], and all that was open is closed: nothing more will come from this process.
    pub const LEAVE: i32 = 10;
    /// The program is about to make a directory, a symbolic link or a special file `path`, where it
    /// sees nothing.
    pub const MAKE: i32 = 11;
    /// The program opens for writing what is called `path`, but for a symbolic link in it, which
    /// leads elsewhere.
    pub const MISLED: i32 = 12;
    /// What the program opens as `path`, to read it, could not be opened where the engine has it.
    pub const UNREADABLE: i32 = 13;
}

/// What [`Engine::file_opened`] returns, or a higher number, by which the engine knows the file.
pub mod file_mark {
    /// Other ranks cannot tell when this one writes or reads it.
    pub const ALONE: i32 = 0;
    /// Each blocking collective call on it is a barrier of [`Idle::world`](crate::Idle::world).
    pub const OF_WORLD: i32 = 1;
}

/// Bits for [`Engine::file_open`], as all MPIs have them.
pub mod open_mode {
    /// MPI_MODE_CREATE.
    pub const CREATE: i32 = 1;
    /// MPI_MODE_RDONLY.
    pub const READ_ONLY: i32 = 2;
}

/// How the ranks are to write a file by MPI-IO: the low eight bits of [`Engine::hints`].
pub mod hint {
    /// Each rank writes by itself what it has.
    pub const ALONE: i32 = 1;
    /// One rank of each node gathers what is to be written; the number of nodes is in the bits from
    /// 8 on.
    pub const BY_NODE: i32 = 2;
    /// With one of these: the file may be read in the same way, since each node still has what it
    /// wrote.
    pub const READS: i32 = 0x80;
}

/// What is about to be done to the file of a token with [`TOKEN_LAZY`], instead of an errno.
pub mod change {
    /// Something else than the other.
    pub const CHANGES: i32 = -1;
    /// It is made 0 bytes long, so that nobody needs its older content.
    pub const EMPTIES: i32 = -2;
}

/// The engine's functions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Engine {
    /// `size_of::<Engine>()`.
    pub size: usize,
    /// [`ABI_VERSION`].
    pub version: u32,
    /// Right after the real MPI_Init returned: why this MPI cannot be served, null if it can. The
    /// text stays. Local.
    pub refusal: extern "C" fn() -> *const c_char,
    /// After `refusal` was null. Returns 1 if there is work for us (patterns are configured): hooks
    /// then ask. 0: pass-through for good. Collective from the launch check on.
    pub init: extern "C" fn(host: *const Host) -> c_int,
    /// The prefix directory, resolved; valid after `init` returned 1, for the process's life.
    pub prefix: extern "C" fn() -> *const c_char,
    /// Before a blocking synchronising call of the program on `comm` (the handle as passed, in a
    /// register-wide integer; MPICH's are the low 32 bits). MPI depth is 0.
    pub sync: extern "C" fn(comm: usize, kind: c_int),
    /// Valid like `prefix`.
    pub idle: extern "C" fn() -> Idle,
    /// See [`event`]. `path` may be null.
    pub note: extern "C" fn(event: c_int, path: *const c_char),
    /// MPI_File_open is about to be called on `path` and `comm` (a handle as in `sync`), with these
    /// bits of [`open_mode`].
    /// Returns a directory on the file system that a new file of that name would lie on; null: on
    /// that of the PFS. The text stays.
    pub file_open: extern "C" fn(comm: usize, path: *const c_char, mode: c_int) -> *const c_char,
    /// MPI_File_open has returned on `comm`, on some file; nonzero `opened`: with a handle.
    /// Returns what the calls on that handle are ([`file_mark`]).
    pub file_opened: extern "C" fn(comm: usize, opened: c_int) -> c_int,
    /// Before each blocking collective call on a handle with another mark than those two; nonzero
    /// `closes`: it is the last one. MPI depth is 0.
    pub file_call: extern "C" fn(mark: c_int, closes: c_int),
    /// The program opens `path` with open(2)'s `flags` and `mode`.
    pub open: extern "C" fn(path: *const c_char, flags: c_int, mode: u32, verdict: *mut PathAnswer),
    /// The real open for a token returned: `fd`, or -1 with `errno`. Nonzero: the store cannot take
    /// the file. It is to be evacuated before its first write; or if it was not opened, the engine
    /// is to be asked again, and has another place for it.
    pub opened: extern "C" fn(token: u64, fd: c_int, errno: c_int) -> c_int,
    /// The log of a token with [`TOKEN_LOGGED`], which stays as long as the process. Null: it has
    /// none.
    pub log: extern "C" fn(token: u64) -> *const accesses::AccessLog,
    /// The descriptor `fd` of a token is about to be closed, and what was written through it are
    /// all `bytes` of its file, from start to end, with this CRC32 (IEEE). No other descriptor was
    /// open on it that could write, as far as this process knows.
    pub written: extern "C" fn(token: u64, fd: c_int, bytes: u64, crc32: u32),
    /// `fd`, just opened for a token, is on an empty file that will be written from start to end:
    /// returns a new descriptor, with its access mode and the file's attributes, on a file with old
    /// content that the engine has no more use for; -1: there is none. The shim sees to it that no
    /// one finds old content under the empty file's name, which it gives that file.
    pub reuse: extern "C" fn(token: u64, fd: c_int) -> c_int,
    /// The last descriptor (dup, stream, fork'd copy known to us) of a token was closed. Nonzero:
    /// what it has written is lost.
    pub closed: extern "C" fn(token: u64) -> c_int,
    /// A write, truncate, fsync or close on the token's file failed.
    pub failed: extern "C" fn(token: u64, errno: c_int),
    /// A call on the token's file met `errno`, which the PFS may not meet (0: it is to move for
    /// another reason): move what is written to the PFS. Or the token has [`TOKEN_LAZY`], and its
    /// file is about to change (one of [`change`]). Returns a new descriptor on the same content,
    /// with the access mode and at the offset of `fd`; -1 if impossible, and its dataset is
    /// invalid. The token may have another log then, or none.
    ///
    /// With -1 for `fd`: the file cannot move now, and all that has failed is to make it durable.
    /// It goes to the PFS at its close. -1 if it is not in the cache.
    pub evacuate: extern "C" fn(token: u64, fd: c_int, errno: c_int) -> c_int,
    /// Bytes `offset .. offset + bytes` of the token's file will be written in a way that cannot be
    /// made again elsewhere (through memory, by libc's own threads). Nonzero: there is no room; the
    /// file is to be evacuated first.
    pub reserve: extern "C" fn(token: u64, fd: c_int, offset: u64, bytes: u64) -> c_int,
    /// stat, lstat, access, readlink, statfs, realpath: where is `path`? `compares` nonzero: its
    /// number may be compared with that of a descriptor.
    pub lookup: extern "C" fn(path: *const c_char, compares: c_int, verdict: *mut PathAnswer),
    /// chmod, chown, utime, truncate by path: like `lookup`, but the file will change.
    pub change: extern "C" fn(path: *const c_char, verdict: *mut PathAnswer),
    /// unlink. [`kind::DONE`] when the name space dealt with it.
    pub unlink: extern "C" fn(path: *const c_char, verdict: *mut PathAnswer),
    /// rename; `from` or `to` may lie outside the prefix.
    pub rename: extern "C" fn(from: *const c_char, to: *const c_char, verdict: *mut PathAnswer),
    /// link or symlink `target` as `path`; [`kind::PASS`] for symlinks, made on the PFS.
    pub link: extern "C" fn(
        target: *const c_char,
        path: *const c_char,
        symbolic: c_int,
        verdict: *mut PathAnswer,
    ),
    /// rmdir.
    pub rmdir: extern "C" fn(path: *const c_char, verdict: *mut PathAnswer),
    /// What a listing of `path` shows beyond (or less than) the PFS. Returns the number of calls
    /// made.
    pub list: extern "C" fn(path: *const c_char, entry: EntryFn, context: *mut c_void) -> c_int,
    /// Name of the abstract socket at which children of this process ask ([`wire`]), null if there
    /// is none. Valid like `prefix`.
    pub address: extern "C" fn() -> *const c_char,
    /// The `index`th directory below the prefix that is a symbolic link and keeps its name all the
    /// same, null behind the last; where it leads is put into `place`. What lies there is called
    /// by that name whichever way the program takes. Valid like `prefix`.
    pub alias: extern "C" fn(index: usize, place: *mut *const c_char) -> *const c_char,
    /// Counts the turns that ranks of this node have taken to change names: what was found out
    /// about names before one may be wrong. Null: nobody counts. Valid like `prefix`.
    pub turns: extern "C" fn() -> *const AtomicU64,
    /// Bytes `start..end` of the token's file, whose log is [`accesses::trait_bit::PARTED`], are
    /// about to be read. Zero: not all of them are here, or another node may have written them
    /// since: the file is to be evacuated first.
    pub has: extern "C" fn(token: u64, start: u64, end: u64) -> c_int,
    /// How long that file is, with what other nodes have written. All bits: nobody can know here,
    /// and the file is to be evacuated first.
    pub file_size: extern "C" fn(token: u64) -> u64,
    /// What MPI-IO is to be told of the file that MPI_File_open is about to open: 0, or one of
    /// [`hint`].
    pub hints: extern "C" fn(comm: usize, path: *const c_char) -> c_int,
}
