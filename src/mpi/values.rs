//! The constants of MPI that the engine uses. Before MPI 5 each MPI chose its own: Open MPI's
//! handles are addresses of data in its library, those of MPICH and its relatives (Intel, Cray,
//! MVAPICH, ParaStation) numbers of 32 bits, the same since MPICH 3.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};

/// A handle of MPI as a word: an address, or a number whose sign goes on to the left, as a
/// processor has an `int` in a register.
pub type Handle = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    pub family: &'static str,
    pub handle_bytes: usize,
    /// Where MPI_SOURCE is in a status.
    pub source_offset: usize,
    pub comm_world: Handle,
    pub comm_self: Handle,
    pub comm_null: Handle,
    pub request_null: Handle,
    pub uint8: Handle,
    pub int64: Handle,
    pub uint64: Handle,
    pub max: Handle,
    pub sum: Handle,
    pub band: Handle,
    /// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE.
    pub no_status: usize,
    pub proc_null: c_int,
    pub any_source: c_int,
    pub undefined: c_int,
    /// MPI_UNEQUAL; MPI_IDENT, MPI_CONGRUENT and MPI_SIMILAR come right before it.
    pub unequal: c_int,
    /// MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED, _MULTIPLE.
    pub thread_levels: [c_int; 4],
}

const MPICH: Values = Values {
    family: "MPICH",
    handle_bytes: 4,
    source_offset: 8,
    comm_world: 0x4400_0000,
    comm_self: 0x4400_0001,
    comm_null: 0x0400_0000,
    request_null: 0x2c00_0000,
    uint8: 0x4c00_013b,
    int64: 0x4c00_083a,
    uint64: 0x4c00_083e,
    max: 0x5800_0001,
    sum: 0x5800_0003,
    band: 0x5800_0006,
    no_status: 1,
    proc_null: -1,
    any_source: -2,
    undefined: -32766,
    unequal: 3,
    thread_levels: [0, 1, 2, 3],
};

const STANDARD: Values = Values {
    family: "the standard ABI",
    handle_bytes: 8,
    source_offset: 0,
    comm_world: 0x101,
    comm_self: 0x102,
    comm_null: 0x100,
    request_null: 0x180,
    uint8: 0x241,
    int64: 0x258,
    uint64: 0x259,
    max: 0x23,
    sum: 0x21,
    band: 0x28,
    no_status: 0,
    proc_null: -3,
    any_source: -1,
    undefined: -32766,
    unequal: 204,
    thread_levels: [0, 1024, 2048, 4096],
};

impl Values {
    /// Returns what two communicators are of the same ranks in the same order.
    pub fn congruent(&self) -> c_int {
        self.unequal - 2 // MPI_IDENT, MPI_CONGRUENT, MPI_SIMILAR, MPI_UNEQUAL follow one another
    }

    /// Takes `function` to look for functions of an MPI, `data` for data as the program sees them.
    /// `None`: the MPI is of no family that we know. Safety: what is found under the name of a
    /// function of MPI is that function.
    pub unsafe fn of(
        function: impl Fn(&CStr) -> usize,
        data: impl Fn(&CStr) -> usize,
    ) -> Option<Values> {
        // First: a library of the standard may have in it what it is made of.
        // SAFETY: by this function's contract.
        if unsafe { is_standard(function(c"PMPI_Abi_get_version")) } {
            return Some(STANDARD);
        }
        if data(c"ompi_mpi_comm_world") != 0 {
            return open_mpi(data);
        }
        // MPICH's header makes MPI_COMM_DUP_FN of it, so all that programs built with MPICH run
        // with have it.
        (function(c"MPIR_Dup_fn") != 0).then_some(MPICH)
    }

    /// Returns the handle in a word that a program has passed; of one of 32 bits, the upper half
    /// can be anything.
    pub fn handle(&self, word: usize) -> Handle {
        if self.handle_bytes == 4 { word as u32 as i32 as usize } else { word }
    }

    pub fn mask(&self) -> usize {
        if self.handle_bytes == 4 { u32::MAX as usize } else { usize::MAX }
    }

    /// Tells whether this level of thread support lets several threads communicate, be it in turn.
    pub fn permits_threads(&self, level: c_int) -> bool {
        level >= self.thread_levels[2]
    }

    pub fn no_status(&self) -> *mut c_void {
        self.no_status as *mut c_void
    }

    pub fn handles(&self, count: usize, handle: Handle) -> Handles {
        let mut all = Handles { words: vec![0; count.max(1)], bytes: self.handle_bytes };
        (0..count).for_each(|at| all.put(at, handle));
        all
    }
}

type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// Safety: `get_version` is 0 or the address of MPI_Abi_get_version.
unsafe fn is_standard(get_version: usize) -> bool {
    if get_version == 0 {
        return false;
    }
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: by this function's contract; it may be called at any time, with places for two ints.
    let code = unsafe {
        let get = std::mem::transmute::<usize, GetVersion>(get_version);
        get(&mut major, &mut minor)
    };
    code == 0 && major >= 1
}

fn open_mpi(data: impl Fn(&CStr) -> usize) -> Option<Values> {
    let address = |name| Some(data(name)).filter(|&address| address != 0);
    Some(Values {
        family: "Open MPI",
        handle_bytes: size_of::<usize>(),
        source_offset: 0,
        comm_world: address(c"ompi_mpi_comm_world")?,
        comm_self: address(c"ompi_mpi_comm_self")?,
        comm_null: address(c"ompi_mpi_comm_null")?,
        request_null: address(c"ompi_request_null")?,
        uint8: address(c"ompi_mpi_uint8_t")?,
        int64: address(c"ompi_mpi_int64_t")?,
        uint64: address(c"ompi_mpi_uint64_t")?,
        max: address(c"ompi_mpi_op_max")?,
        sum: address(c"ompi_mpi_op_sum")?,
        band: address(c"ompi_mpi_op_band")?,
        no_status: 0,
        proc_null: -2,
        any_source: -1,
        undefined: -32766,
        unequal: 3,
        thread_levels: [0, 1, 2, 3],
    })
}

pub struct Handles {
    words: Vec<usize>,
    bytes: usize,
}

impl Handles {
    pub fn place(&mut self, index: usize) -> *mut c_void {
        assert!((index + 1) * self.bytes <= size_of_val(&self.words[..]), "a place of ours");
        // SAFETY: inside of the words.
        unsafe { self.words.as_mut_ptr().cast::<u8>().add(index * self.bytes).cast() }
    }

    pub fn get(&mut self, index: usize) -> Handle {
        let place = self.place(index);
        // SAFETY: a place for a handle of so many bytes, aligned for them.
        unsafe {
            match self.bytes {
                4 => *place.cast::<i32>() as usize,
                _ => *place.cast::<usize>(),
            }
        }
    }

    fn put(&mut self, index: usize, handle: Handle) {
        let place = self.place(index);
        // SAFETY: as in `get`.
        unsafe {
            match self.bytes {
                4 => *place.cast::<i32>() = handle as i32,
                _ => *place.cast::<usize>() = handle,
            }
        }
    }
}

/// A status, of whatever MPI: none has more bytes.
#[repr(C, align(8))]
pub struct Status([u8; 256]);

impl Status {
    pub fn new() -> Status {
        Status([0xee; 256])
    }

    pub fn place(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    pub fn source(&self, values: &Values) -> c_int {
        let mut bytes = [0; size_of::<c_int>()];
        let from = values.source_offset;
        bytes.copy_from_slice(&self.0[from..from + size_of::<c_int>()]);
        c_int::from_ne_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_low_half_of_the_word() {
        assert_eq!(MPICH.handle(0xffff_ffff_4400_0000), MPICH.comm_world);
        assert_eq!(MPICH.handle(0x8400_0001), 0xffff_ffff_8400_0001);
        assert_eq!(0xffff_ffff_4400_0000 & MPICH.mask(), MPICH.comm_world);
        assert_eq!(STANDARD.handle(0xffff_ffff_0000_0101), 0xffff_ffff_0000_0101);
    }

    #[test]
    fn handles_lie_as_close_as_mpi_has_them() {
        for values in [MPICH, STANDARD] {
            let mut three = values.handles(3, values.request_null);
            let apart = three.place(1) as usize - three.place(0) as usize;
            assert_eq!(apart, values.handle_bytes);
            three.put(1, values.handle(0x9800_0000));
            assert_eq!(three.get(1), values.handle(0x9800_0000));
            assert_eq!([three.get(0), three.get(2)], [values.request_null; 2]);
        }
    }

    #[test]
    fn a_family_is_told_by_what_is_defined() {
        extern "C" fn none(major: *mut c_int, _minor: *mut c_int) -> c_int {
            // SAFETY: the place that `is_standard` gives.
            unsafe { *major = -1 };
            0
        }
        extern "C" fn first(major: *mut c_int, _minor: *mut c_int) -> c_int {
            // SAFETY: as above.
            unsafe { *major = 1 };
            0
        }
        let family = |abi: usize, of_mpich: bool, open_mpi: bool| {
            let function = |name: &CStr| match name.to_bytes() {
                b"PMPI_Abi_get_version" => abi,
                b"MPIR_Dup_fn" => usize::from(of_mpich),
                _ => 0,
            };
            let data = |name: &CStr| if open_mpi { name.to_bytes().len() } else { 0 };
            // SAFETY: the two functions above are of the type.
            unsafe { Values::of(function, data) }.map(|values| values.family)
        };
        let (none, first) = (none as *const () as usize, first as *const () as usize);
        assert_eq!(family(0, false, true), Some("Open MPI"));
        assert_eq!(family(none, true, false), Some("MPICH"));
        assert_eq!(family(first, true, true), Some("the standard ABI"));
        assert_eq!(family(none, false, false), None);
    }
}
