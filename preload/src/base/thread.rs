//! What the calling thread is in: our own work, a hooked MPI call; and which signals wait until it
//! has left the work.
//!
//! Neither mark has a destructor, so both can be read at any time of a thread's life.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::sync::atomic::{Ordering, compiler_fence};

use libc::sigset_t;

/// Signals have smaller numbers.
pub(crate) const SIGNALS: usize = 65;

/// What is kept of a thread, in one place: to find it costs a call, which an MPI call that has
/// nothing to do makes once.
struct Marks {
    inside: Cell<u32>,
    mpi_depth: Cell<u32>,
    mpi_file: Cell<Option<Named>>,
    /// A bit for each signal that waits.
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
    /// Changes the guard; handlers that have waited run when it is not held any more.
    #[inline]
    fn set_inside(&self, count: u32) {
        self.inside.set(count);
        compiler_fence(Ordering::SeqCst); // a handler looks at it at any moment
        if count == 0 && self.waiting.get() != 0 {
            let_come(self.waiting.take());
        }
    }
}

/// Tells whether this thread runs our own or the engine's code: its libc calls pass.
pub(crate) fn inside() -> bool {
    MARKS.with(|marks| marks.inside.get()) != 0
}

/// Tells whether this thread is in a hooked MPI call: calls made from there do not count.
#[cfg(test)]
fn in_mpi() -> bool {
    MARKS.with(|marks| marks.mpi_depth.get()) != 0
}

/// Notes that signals wait until the guard is not held any more: a bit for each.
pub(crate) fn note_waiting(signals: u64) {
    MARKS.with(|marks| marks.waiting.set(marks.waiting.get() | signals));
}

/// Says whether this thread runs our own code from now on: 0 if not.
pub(crate) fn set_inside(count: u32) {
    MARKS.with(|marks| marks.set_inside(count));
}

/// Marks the thread as the engine's: both guards, until [`leave_thread`].
pub(crate) extern "C" fn enter_thread() {
    MARKS.with(|marks| {
        marks.set_inside(marks.inside.get() + 1);
        marks.mpi_depth.set(marks.mpi_depth.get() + 1);
    });
}

/// Undoes one [`enter_thread`].
pub(crate) extern "C" fn leave_thread() {
    MARKS.with(|marks| {
        marks.set_inside(marks.inside.get().saturating_sub(1));
        marks.mpi_depth.set(marks.mpi_depth.get().saturating_sub(1));
    });
}

/// Lifts the guard while the engine's call waits for other ranks: handlers run, and what they do is
/// the program's doing. Returns what [`step_in`] needs.
pub(crate) extern "C" fn step_out() -> u32 {
    MARKS.with(|marks| {
        let before = marks.inside.get();
        marks.set_inside(0);
        before
    })
}

/// Undoes a [`step_out`].
pub(crate) extern "C" fn step_in(before: u32) {
    set_inside(before);
}

/// A thread that makes an MPI call, not from within one.
pub(crate) struct Caller(*const Marks);

impl Caller {
    /// Finds the calling thread; `None` if it is in a hooked MPI call: this one does not count.
    #[inline]
    pub(crate) fn of_mpi() -> Option<Self> {
        MARKS.with(|marks| (marks.mpi_depth.get() == 0).then_some(Self(marks)))
    }

    /// Enters the call; dropping the value leaves.
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

/// Counts one hooked MPI call that is under way on this thread.
pub(crate) struct MpiDepth {
    marks: *const Marks,
    inside: u32,
    depth: u32,
}

impl MpiDepth {
    /// Enters; dropping the value leaves.
    pub(crate) fn enter() -> Self {
        MARKS.with(|marks| Caller(marks).enter())
    }
}

impl Drop for MpiDepth {
    /// Restores both marks as they were: a callback that entered the engine and was left by an
    /// exception must not disable the hooks of the program's thread.
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
    /// Enters a call that may open `named` for the program; dropping the value leaves.
    pub(crate) fn other_than(named: Option<Named>) -> Self {
        Self(MARKS.with(|marks| marks.mpi_file.replace(Some(named.unwrap_or_default()))))
    }

    /// Tells whether `path` (a canonical name) is opened now by MPI-IO for itself.
    pub(crate) fn are_at(path: &CStr) -> bool {
        let named = MARKS.with(|marks| marks.mpi_file.get());
        named.is_some_and(|named| named.path != number(path.to_bytes()))
    }

    /// Returns whose file system MPI-IO, which is about to make a file, takes for that of the
    /// directory `path` (a canonical name).
    pub(crate) fn store_for(path: &CStr) -> Option<&'static CStr> {
        let named = MARKS.with(|marks| marks.mpi_file.get())?;
        named.store.filter(|_| named.directory == number(path.to_bytes()))
    }
}

impl Drop for MpiFiles {
    fn drop(&mut self) {
        MARKS.with(|marks| marks.mpi_file.set(self.0));
    }
}

/// Stands for a name where nothing that needs a destructor may be kept.
fn number(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Lets signals come that have waited, a bit for each: the work is over.
#[cold]
fn let_come(waiting: u64) {
    let waiting = set_of(waiting);
    // SAFETY: the set is a valid one.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const waiting, std::ptr::null_mut()) };
}

/// Makes the set of these signals, a bit for each.
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
