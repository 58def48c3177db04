//! What the calling thread is in: our own work, a hooked MPI call; and which signals wait until it
//! has left the work. No mark has a destructor, so all can be read at any time of a thread's life.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::sigset_t;

pub(crate) const SIGNALS: usize = 65;

/// The marks are in one place, since an MPI call that has nothing to do pays for finding them.
struct Marks {
    inside: Cell<u32>,
    mpi_depth: Cell<u32>,
    mpi_file: Cell<Option<Named>>,
    waiting: Cell<u64>,
}

thread_local! {
    static MARKS: Marks = const {
        Marks {
            inside: Cell::new(0),
            mpi_depth: Cell::new(0),
            mpi_file: Cell::new(None),
            waiting: Cell::new(0),
        }
    };
}

impl Marks {
    #[inline]
    fn set_inside(&self, count: u32) {
        self.inside.set(count);
        compiler_fence(Ordering::SeqCst); // a handler looks at it at any moment
        if count == 0 && self.waiting.get() != 0 {
            let_come(self.waiting.take());
        }
    }
}

pub(crate) fn inside() -> bool {
    MARKS.with(|marks| marks.inside.get()) != 0
}

#[cfg(test)]
fn in_mpi() -> bool {
    MARKS.with(|marks| marks.mpi_depth.get()) != 0
}

pub(crate) fn note_waiting(signals: u64) {
    MARKS.with(|marks| marks.waiting.set(marks.waiting.get() | signals));
}

pub(crate) fn set_inside(count: u32) {
    MARKS.with(|marks| marks.set_inside(count));
}

pub(crate) extern "C" fn enter_thread() {
    MARKS.with(|marks| {
        marks.set_inside(marks.inside.get() + 1);
        marks.mpi_depth.set(marks.mpi_depth.get() + 1);
    });
}

pub(crate) extern "C" fn leave_thread() {
    MARKS.with(|marks| {
        marks.set_inside(marks.inside.get().saturating_sub(1));
        marks.mpi_depth.set(marks.mpi_depth.get().saturating_sub(1));
    });
}

/// Lifts the guard while the engine waits for other ranks: the program's signal handlers run, and
/// what they do is the program's doing. The result is for [`step_in`].
pub(crate) extern "C" fn step_out() -> u32 {
    MARKS.with(|marks| {
        let before = marks.inside.get();
        marks.set_inside(0);
        before
    })
}

pub(crate) extern "C" fn step_in(before: u32) {
    set_inside(before);
}

/// A thread that makes an MPI call, not from within one.
pub(crate) struct Caller(*const Marks);

impl Caller {
    #[inline]
    pub(crate) fn of_mpi() -> Option<Self> {
        MARKS.with(|marks| (marks.mpi_depth.get() == 0).then_some(Self(marks)))
    }

    #[inline]
    pub(crate) fn enter(self) -> MpiDepth {
        // SAFETY: the marks of this thread, which they live as long as; the pointer keeps the value
        // from going to another one.
        let marks = unsafe { &*self.0 };
        let before = MpiDepth { marks, inside: marks.inside.get(), depth: marks.mpi_depth.get() };
        marks.mpi_depth.set(before.depth + 1);
        before
    }
}

pub(crate) struct MpiDepth {
    marks: *const Marks,
    inside: u32,
    depth: u32,
}

impl MpiDepth {
    pub(crate) fn enter() -> Self {
        MARKS.with(|marks| Caller(marks).enter())
    }
}

impl Drop for MpiDepth {
    /// A callback that entered the engine and was left by an exception must not disable the hooks
    /// of the program's thread, so both marks become what they were.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `Caller::enter`.
        let marks = unsafe { &*self.marks };
        marks.set_inside(self.inside);
        marks.mpi_depth.set(self.depth);
    }
}

/// The file that the program has named to MPI-IO.
#[derive(Clone, Copy, Default)]
pub(crate) struct Named {
    path: u64,
    directory: u64,
    store: Option<&'static CStr>,
}

impl Named {
    /// Names a file by its canonical name; a new one would lie on the file system of `store`, if
    /// not on that of its directory.
    pub(crate) fn new(path: &CStr, store: Option<&'static CStr>) -> Self {
        let directory = path.to_bytes().iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let directory = number(&path.to_bytes()[..directory]);
        Named { path: number(path.to_bytes()), directory, store }
    }
}

/// A call of MPI-IO that is under way on this thread: the files that it opens are MPI's own, but
/// for the one that the program has named.
pub(crate) struct MpiFiles(Option<Named>);

impl MpiFiles {
    /// Excepts the file that the program itself opens.
    pub(crate) fn other_than(named: Option<Named>) -> Self {
        Self(MARKS.with(|marks| marks.mpi_file.replace(Some(named.unwrap_or_default()))))
    }

    pub(crate) fn are_at(path: &CStr) -> bool {
        let named = MARKS.with(|marks| marks.mpi_file.get());
        named.is_some_and(|named| named.path != number(path.to_bytes()))
    }

    /// Tells whether MPI-IO opens files now: what it opens, the program cannot map.
    pub(crate) fn are_opened() -> bool {
        MARKS.with(|marks| marks.mpi_file.get()).is_some()
    }

    /// Notes a file that MPI-IO is about to make for itself.
    pub(crate) fn note_made(path: &CStr) {
        made().insert(number(path.to_bytes()));
    }

    /// Tells whether MPI-IO has made the file for itself, which is about to be removed.
    pub(crate) fn were_made_at(path: &CStr) -> bool {
        made().remove(&number(path.to_bytes()))
    }

    /// Returns whose file system MPI-IO, which is about to make a file, takes for that of the
    /// directory `path` (a canonical name).
    pub(crate) fn store_for(path: &CStr) -> Option<&'static CStr> {
        let named = MARKS.with(|marks| marks.mpi_file.get())?;
        named.store.filter(|_| named.directory == number(path.to_bytes()))
    }
}

/// The names of files that MPI-IO has made for itself, until they are removed.
fn made() -> MutexGuard<'static, BTreeSet<u64>> {
    static MADE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for MpiFiles {
    fn drop(&mut self) {
        MARKS.with(|marks| marks.mpi_file.set(self.0));
    }
}

/// Nothing that needs a destructor may be kept here, so a hash stands for the name.
fn number(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cold]
fn let_come(waiting: u64) {
    let waiting = set_of(waiting);
    // SAFETY: the set is a valid one.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const waiting, std::ptr::null_mut()) };
}

pub(crate) fn set_of(bits: u64) -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset writes the set, sigaddset changes it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let numbers = (1..SIGNALS as c_int).filter(|number| bits & (1 << (number - 1)) != 0);
        numbers.for_each(|number| _ = libc::sigaddset(set.as_mut_ptr(), number));
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpi_io_has_files_of_its_own_beside_the_one_that_is_named() {
        let (named, other) = (c"/p/shared.dat", c"/p/shared.dat.locktest.0");
        assert!(!MpiFiles::are_at(named) && !MpiFiles::are_at(other));
        assert_eq!(MpiFiles::store_for(c"/p"), None);
        {
            let _opening = MpiFiles::other_than(Some(Named::new(named, Some(c"/dev/shm"))));
            assert!(!MpiFiles::are_at(named) && MpiFiles::are_at(other));
            assert_eq!(MpiFiles::store_for(c"/p"), Some(c"/dev/shm"));
            assert_eq!(MpiFiles::store_for(c"/p/other"), None);
            {
                let _closing = MpiFiles::other_than(None);
                assert!(MpiFiles::are_at(named) && MpiFiles::are_at(other));
            }
            assert!(!MpiFiles::are_at(named));
        }
        assert!(!MpiFiles::are_at(other));
    }

    #[test]
    fn depth_is_restored_to_what_it_was() {
        {
            let _depth = MpiDepth::enter();
            enter_thread();
            assert!(in_mpi() && inside());
        }
        assert!(!in_mpi() && !inside());
    }
}
