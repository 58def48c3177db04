//! What MPI-IO is told of a file that it is about to open, beside what the program tells it: which
//! ranks are to write. It is told by an Info of ours, which is the program's with more in it.

use std::ffi::{CStr, CString, c_char, c_int};

use scr_abi::hint;

use crate::base::real::{self, Symbol};
use crate::hooks::mpi::ompio::{self, EachForItself};

/// MPI_INFO_NULL of MPICH, in the low 32 bits, and of the standard ABI. That of Open MPI is the
/// address of data.
const NULL_OF_MPICH: u32 = 0x1c00_0000;
const NULL_OF_STANDARD: usize = 0x130;
const NULL_OF_OPEN_MPI: &CStr = c"ompi_mpi_info_null";

static CREATE: Symbol = Symbol::new(c"PMPI_Info_create");
static DUP: Symbol = Symbol::new(c"PMPI_Info_dup");
static SET: Symbol = Symbol::new(c"PMPI_Info_set");
static FREE: Symbol = Symbol::new(c"PMPI_Info_free");
static COMM_SIZE: Symbol = Symbol::new(c"PMPI_Comm_size");

type OfPlace = unsafe extern "C" fn(*mut usize) -> c_int;
type Dup = unsafe extern "C" fn(usize, *mut usize) -> c_int;
type Set = unsafe extern "C" fn(usize, *const c_char, *const c_char) -> c_int;
type Size = unsafe extern "C" fn(usize, *mut c_int) -> c_int;

/// What MPI_File_open is told while the value lives.
pub(super) struct Hints {
    info: OwnInfo,
    each: Option<EachForItself>,
}

/// An Info that is freed when the value is dropped. A handle of 32 bits is the low half of it.
struct OwnInfo(usize);

impl Hints {
    /// Adds to the program's `info` what `hints` stands for ([`scr_abi::Engine::hints`]). `None`:
    /// nothing, or MPI has no such functions. Collective, where there are any.
    pub(super) fn of(hints: c_int, comm: usize, info: usize) -> Option<Self> {
        let (gathers, writers) = match hints & 0xff & !hint::READS {
            hint::ALONE => ("disable", ranks_of(comm)?),
            hint::BY_NODE => ("enable", hints >> 8),
            _ => return None,
        };
        let own = OwnInfo::like(info)?;
        // ROMIO's, of MPICH, Open MPI and those that are made of them; each ignores others' words.
        own.tell(c"romio_cb_write", gathers)?;
        own.tell(c"romio_ds_write", "disable")?;
        if hints & hint::READS != 0 {
            own.tell(c"romio_cb_read", gathers)?;
            own.tell(c"romio_ds_read", "disable")?;
        }
        // OMPIO, too, which would have one rank write all.
        own.tell(c"cb_nodes", &writers.to_string())?;
        let is_alone = hints & 0xff & !hint::READS == hint::ALONE;
        Some(Self { info: own, each: is_alone.then(|| EachForItself::on(comm)).flatten() })
    }

    pub(super) fn info(&self) -> usize {
        self.info.0
    }

    /// Returns what calls on the file are to find chosen, as its open is.
    pub(super) fn each_for_itself(&self) -> Option<EachForItself> {
        self.each
    }

    /// Does what waits for MPI_File_open to return with a file.
    pub(super) fn is_open(&self) {
        ompio::sieve_no_more();
    }
}

impl OwnInfo {
    fn like(info: usize) -> Option<Self> {
        let mut made = 0;
        FREE.next_or_private()?;
        // SAFETY: the functions of these names take a handle and a place for one, which has room
        // for that of any MPI.
        let code = unsafe {
            if is_null(info) {
                let create = CREATE.next_or_private()?.get();
                std::mem::transmute::<usize, OfPlace>(create)(&raw mut made)
            } else {
                let dup = DUP.next_or_private()?.get();
                std::mem::transmute::<usize, Dup>(dup)(info, &raw mut made)
            }
        };
        (code == 0).then_some(Self(made))
    }

    fn tell(&self, key: &CStr, value: &str) -> Option<()> {
        let value = CString::new(value).ok()?;
        // SAFETY: the function of this name takes a handle, which is ours, and two C strings.
        let code = unsafe {
            let set = std::mem::transmute::<usize, Set>(SET.next_or_private()?.get());
            set(self.0, key.as_ptr(), value.as_ptr())
        };
        (code == 0).then_some(())
    }
}

impl Drop for OwnInfo {
    fn drop(&mut self) {
        if let Some(free) = FREE.next_or_private() {
            // SAFETY: the function of this name takes the place of a handle, which is ours.
            unsafe { std::mem::transmute::<usize, OfPlace>(free.get())(&raw mut self.0) };
        }
    }
}

fn ranks_of(comm: usize) -> Option<c_int> {
    let mut ranks = 0;
    // SAFETY: the function of this name takes a communicator and a place for an int.
    let code = unsafe {
        let size = std::mem::transmute::<usize, Size>(COMM_SIZE.next_or_private()?.get());
        size(comm, &raw mut ranks)
    };
    (code == 0).then_some(ranks)
}

/// A program that is not linked as usual has a copy of its own of Open MPI's data, which counts.
fn is_null(info: usize) -> bool {
    let seen = || ompio::seen(NULL_OF_OPEN_MPI);
    let private = || real::in_any_object(NULL_OF_OPEN_MPI).map_or(0, std::num::NonZeroUsize::get);
    info as u32 == NULL_OF_MPICH || info == NULL_OF_STANDARD || info == seen() || info == private()
}
