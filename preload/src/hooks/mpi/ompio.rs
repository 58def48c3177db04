//! OMPIO, Open MPI's own MPI-IO, takes no hint for some of what it is to do. Its components have
//! variables instead, for all files of the process. Where they are not to be seen, nothing is done.

use std::ffi::{CStr, c_int, c_void};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Once, OnceLock};

use crate::base::real::{self, Symbol};

/// Bools: whether it reads what lies between small pieces, too, to write that back with them or to
/// give it to nobody. It looks before each write and read.
const SIEVES: [&CStr; 2] =
    [c"mca_fbtl_posix_write_datasieving", c"mca_fbtl_posix_read_datasieving"];
/// An int. When a file is opened, that component does its collective calls which has the highest
/// priority; of this one each rank writes and reads by itself, and nothing is exchanged.
const PRIORITY_OF_ALONE: &CStr = c"mca_fcoll_individual_priority";
/// Handles are addresses of data.
const INT: &CStr = c"ompi_mpi_int";
const MIN: &CStr = c"ompi_mpi_op_min";
const THREAD_MULTIPLE: c_int = 3;

static ALLREDUCE: Symbol = Symbol::new(c"PMPI_Allreduce");
static QUERY_THREAD: Symbol = Symbol::new(c"PMPI_Query_thread");

type Allreduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, c_int, usize, usize, usize) -> c_int;
type QueryThread = unsafe extern "C" fn(*mut c_int) -> c_int;

/// While it lives, files that are opened are of ranks that each write and read by themselves.
pub(super) struct EachForItself {
    priority: &'static AtomicI32,
    before: c_int,
}

impl EachForItself {
    /// Begins that if all ranks of `comm` can: ranks of different components would wait for one
    /// another for ever, and one that has opened no file yet has none. Collective in Open MPI.
    pub(super) fn on(comm: usize) -> Option<Self> {
        static HANDLES: OnceLock<Option<(usize, usize)>> = OnceLock::new();
        let (int, min) = (*HANDLES.get_or_init(|| Some((handle(INT)?, handle(MIN)?))))?;
        let priority = real::in_any_object(PRIORITY_OF_ALONE).filter(|_| opens_one_at_a_time());
        let (own, mut all) = (c_int::from(priority.is_some()), 0);
        // SAFETY: the function of this name takes the places of an int each, and handles of Open
        // MPI, whose data those are.
        let code = unsafe {
            let reduce = ALLREDUCE.next_or_private()?.get();
            let reduce = std::mem::transmute::<usize, Allreduce>(reduce);
            reduce((&raw const own).cast(), (&raw mut all).cast(), 1, int, min, comm)
        };
        let priority = priority.filter(|_| code == 0 && all == 1)?;
        // SAFETY: the data of this name is an int that its library can write; it stays loaded from
        // the first file on.
        let priority = unsafe { &*(priority.get() as *const AtomicI32) };
        Some(Self { priority, before: priority.swap(c_int::MAX, Ordering::Relaxed) })
    }
}

impl Drop for EachForItself {
    fn drop(&mut self) {
        self.priority.store(self.before, Ordering::Relaxed);
    }
}

/// Has it read and write only what it is to, from now on. A file is open: only then it is loaded.
pub(super) fn sieve_no_more() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for switch in SIEVES.into_iter().filter_map(real::in_any_object) {
            // SAFETY: the data of this name is a byte that its library can write, and stays loaded
            // while a file is open; a thread of the program that reads it sees either value.
            unsafe { (*(switch.get() as *const AtomicBool)).store(false, Ordering::Relaxed) };
        }
    });
}

/// Tells whether no other thread can open a file meanwhile, which would get the same component.
fn opens_one_at_a_time() -> bool {
    let Some(query) = QUERY_THREAD.next_or_private() else { return false };
    let mut level = THREAD_MULTIPLE;
    // SAFETY: the function of this name takes a place for an int.
    let code = unsafe { std::mem::transmute::<usize, QueryThread>(query.get())(&raw mut level) };
    code == 0 && level < THREAD_MULTIPLE
}

/// A program that is not linked as usual has a copy of its own of Open MPI's data, which counts.
fn handle(name: &CStr) -> Option<usize> {
    NonZeroUsize::new(seen(name)).or_else(|| real::in_any_object(name)).map(NonZeroUsize::get)
}

/// Returns the address of what the program sees by that name; 0: nothing.
pub(super) fn seen(name: &CStr) -> usize {
    // SAFETY: the name is a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
}
