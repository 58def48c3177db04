//! OMPIO, Open MPI's own MPI-IO, takes no hint for some of what it is to do. Its components have
//! variables instead, for all files of the process. Where they are not to be seen, nothing is done.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Once, OnceLock};

use crate::base::real::{self, Symbol};
use crate::base::thread::MpiDepth;

/// Bools: whether it reads what lies between small pieces, too, to write that back with them or to
/// give it to nobody. It looks before each write and read.
const SIEVES: [&CStr; 2] =
    [c"mca_fbtl_posix_write_datasieving", c"mca_fbtl_posix_read_datasieving"];
/// An int. When a file is opened, or gets a view, that component is chosen for its collective calls
/// which has the highest priority; of this one each rank writes and reads by itself, and nothing is
/// exchanged.
const PRIORITY_OF_ALONE: &CStr = c"mca_fcoll_individual_priority";
/// Handles are addresses of data.
const INT: &CStr = c"ompi_mpi_int";
const MIN: &CStr = c"ompi_mpi_op_min";
const SELF: &CStr = c"ompi_mpi_comm_self";
const NO_INFO: &CStr = c"ompi_mpi_info_null";
const READ_ONLY: c_int = 2;
const THREAD_MULTIPLE: c_int = 3;

static ALLREDUCE: Symbol = Symbol::new(c"PMPI_Allreduce");
static FILE_OPEN: Symbol = Symbol::new(c"PMPI_File_open");
static FILE_CLOSE: Symbol = Symbol::new(c"PMPI_File_close");
static QUERY_THREAD: Symbol = Symbol::new(c"PMPI_Query_thread");

type Allreduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, c_int, usize, usize, usize) -> c_int;
type FileOpen = unsafe extern "C" fn(usize, *const c_char, c_int, usize, *mut usize) -> c_int;
type FileClose = unsafe extern "C" fn(*mut usize) -> c_int;
type QueryThread = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The priority of the component of which each rank writes and reads by itself.
#[derive(Clone, Copy)]
pub(super) struct EachForItself(&'static AtomicI32);

/// While it lives, that one is chosen.
pub(super) struct Chosen {
    priority: &'static AtomicI32,
    before: c_int,
}

impl EachForItself {
    /// Returns it if all ranks of `comm` can have it: ranks of different components would wait for
    /// one another for ever. Collective in Open MPI.
    pub(super) fn on(comm: usize) -> Option<Self> {
        static HANDLES: OnceLock<Option<(usize, usize)>> = OnceLock::new();
        let (int, min) = (*HANDLES.get_or_init(|| Some((handle(INT)?, handle(MIN)?))))?;
        load();
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
        Some(Self(unsafe { &*(priority.get() as *const AtomicI32) }))
    }

    pub(super) fn choose(self) -> Chosen {
        Chosen { priority: self.0, before: self.0.swap(c_int::MAX, Ordering::Relaxed) }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.priority.store(self.before, Ordering::Relaxed);
    }
}

/// Has it read and write only what it is to, from now on. A file has been opened.
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

/// The components are loaded when a process opens its first file.
fn load() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let functions = FILE_OPEN.next_or_private().zip(FILE_CLOSE.next_or_private());
        let handles = handle(SELF).zip(handle(NO_INFO));
        let (Some((open, close)), Some((own, info))) = (functions, handles) else { return };
        let mut file = 0;
        let _depth = MpiDepth::enter();
        // SAFETY: the functions of these names take a C string, handles of Open MPI, whose data
        // those are, and a place for a file's.
        unsafe {
            let open = std::mem::transmute::<usize, FileOpen>(open.get());
            if open(own, c"/dev/null".as_ptr(), READ_ONLY, info, &raw mut file) == 0 {
                std::mem::transmute::<usize, FileClose>(close.get())(&raw mut file);
            }
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
