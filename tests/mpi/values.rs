//! The constants that the engine takes for those of an MPI, against the headers that this test is
//! built with (`MPICC`).

use std::ffi::CStr;
use std::mem::offset_of;

use mpi::ffi;

#[allow(dead_code, reason = "the engine uses all of it")]
#[path = "../../src/mpi/values.rs"]
mod values;

/// What is called so in this program and its libraries.
fn address(name: &CStr) -> usize {
    // SAFETY: a C string, looked for only.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
}

/// The words of a handle, whatever its type.
fn word<T>(handle: T) -> usize {
    // SAFETY: a handle is an address or an int, by its size, and is only read.
    unsafe {
        match size_of::<T>() {
            4 => std::mem::transmute_copy::<T, i32>(&handle) as usize,
            8 => std::mem::transmute_copy::<T, usize>(&handle),
            other => panic!("a handle of {other} bytes"),
        }
    }
}

#[test]
fn values_are_those_of_the_headers() {
    let mut flag = 1;
    // SAFETY: may be called at any time, with a place for an int. A library of which nothing is
    // called would not be linked.
    assert_eq!((unsafe { ffi::MPI_Initialized(&mut flag) }, flag), (0, 0));
    // SAFETY: the functions of MPI that are found are MPI's.
    let ours = unsafe { values::Values::of(address, address) }.expect("an MPI of a known family");
    // SAFETY: constants of the MPI library, defined before main.
    let theirs = unsafe {
        values::Values {
            family: ours.family,
            handle_bytes: size_of::<ffi::MPI_Comm>(),
            source_offset: offset_of!(ffi::MPI_Status, MPI_SOURCE),
            comm_world: word(ffi::RSMPI_COMM_WORLD),
            comm_self: word(ffi::RSMPI_COMM_SELF),
            comm_null: word(ffi::RSMPI_COMM_NULL),
            request_null: word(ffi::RSMPI_REQUEST_NULL),
            uint8: word(ffi::RSMPI_UINT8_T),
            int64: word(ffi::RSMPI_INT64_T),
            uint64: word(ffi::RSMPI_UINT64_T),
            max: word(ffi::RSMPI_MAX),
            sum: word(ffi::RSMPI_SUM),
            band: word(ffi::RSMPI_BAND),
            no_status: ffi::RSMPI_STATUS_IGNORE as usize,
            proc_null: ffi::RSMPI_PROC_NULL,
            any_source: ffi::RSMPI_ANY_SOURCE,
            undefined: ffi::RSMPI_UNDEFINED,
            unequal: ffi::RSMPI_UNEQUAL,
            thread_levels: [
                ffi::RSMPI_THREAD_SINGLE,
                ffi::RSMPI_THREAD_FUNNELED,
                ffi::RSMPI_THREAD_SERIALIZED,
                ffi::RSMPI_THREAD_MULTIPLE,
            ],
        }
    };
    println!("{}", ours.family);
    assert_eq!(ours, theirs);
    // SAFETY: as above.
    let others = unsafe {
        assert!(size_of::<ffi::MPI_Status>() <= size_of::<values::Status>());
        let sizes = (size_of::<ffi::MPI_Datatype>(), size_of::<ffi::MPI_Request>());
        assert_eq!(sizes, (ours.handle_bytes, ours.handle_bytes));
        (ffi::RSMPI_STATUSES_IGNORE as usize, ffi::RSMPI_IDENT)
    };
    assert_eq!(others, (ours.no_status, ours.unequal - 3));
}
