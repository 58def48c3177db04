//! Whether an MPI does what its marks let expect: tried on MPI_COMM_SELF, so that no other rank is
//! needed, and before anything rests on it. A value that is not this MPI's shows here.
#![allow(unsafe_code)]

use std::ffi::c_int;

use super::communicator::MpiComm;
use super::library::Library;
use super::values::{Handle, Status};

/// Fails with what has come out otherwise than it must.
pub(super) fn run(mpi: &Library) -> Result<(), String> {
    let values = &mpi.values;
    communicators(mpi)?;
    reductions(mpi)?;
    let mut own = values.handles(1, values.comm_null);
    // SAFETY: a communicator that MPI has made, and a place for another one; so is all below.
    unsafe {
        let split = mpi.call.comm_split;
        expect("MPI_Comm_split", split(values.comm_self, values.undefined, 0, own.place(0)), 0)?;
        expect("MPI_Comm_split without a color", own.get(0), values.comm_null)?;
        expect("MPI_Comm_split", split(values.comm_self, 0, 0, own.place(0)), 0)?;
    }
    let comm = own.get(0);
    if comm == values.comm_null {
        return Err("MPI_Comm_split makes none".into());
    }
    // SAFETY: it is ours alone.
    let outcome = unsafe { MpiComm::set_errors_return(mpi, comm) }
        .map_err(|error| error.to_string())
        .and_then(|()| messages(mpi, comm));
    // SAFETY: it is ours alone, and nothing is under way on it.
    expect("MPI_Comm_free", unsafe { (mpi.call.comm_free)(own.place(0)) }, 0)?;
    outcome
}

fn communicators(mpi: &Library) -> Result<(), String> {
    let (call, values) = (&mpi.call, &mpi.values);
    let (mut rank, mut size, mut compared, mut level) = (-1, -1, -1, -1);
    // SAFETY: handles of this MPI, if its marks are true, and places for ints.
    unsafe {
        expect("MPI_Comm_size", (call.comm_size)(values.comm_self, &mut size), 0)?;
        expect("the size of MPI_COMM_SELF", size, 1)?;
        expect("MPI_Comm_rank", (call.comm_rank)(values.comm_world, &mut rank), 0)?;
        expect("MPI_Comm_size", (call.comm_size)(values.comm_world, &mut size), 0)?;
        if rank < 0 || rank >= size {
            return Err(format!("MPI_COMM_WORLD has rank {rank} of {size}"));
        }
        let compare = call.comm_compare;
        let (world, own) = (values.comm_world, values.comm_self);
        expect("MPI_Comm_compare", compare(own, own, &mut compared), 0)?;
        expect("MPI_IDENT", compared, values.unequal - 3)?;
        expect("MPI_Comm_compare", compare(world, own, &mut compared), 0)?;
        expect("MPI_UNEQUAL", compared == values.unequal, size > 1)?;
        expect("MPI_Query_thread", (call.query_thread)(&mut level), 0)?;
    }
    if !values.thread_levels.contains(&level) {
        return Err(format!("MPI_Query_thread says {level}"));
    }
    Ok(())
}

/// A case has a name, a type and an operation; two operands, and what comes out.
type Reduction = (&'static str, Handle, Handle, [i64; 3], [i64; 3], [i64; 3]);

/// The third number is behind those that are reduced, and is to stay.
fn reductions(mpi: &Library) -> Result<(), String> {
    let (call, values) = (&mpi.call, &mpi.values);
    let cases: [Reduction; 3] = [
        ("MPI_MAX", values.int64, values.max, [7, -5, 9], [3, -3, 5], [7, -3, 5]),
        ("MPI_SUM", values.int64, values.sum, [5 << 40, -5, 9], [2, -3, 5], [(5 << 40) + 2, -8, 5]),
        ("MPI_BAND", values.uint64, values.band, [7, -5, 9], [3, -3, 5], [3, -7, 5]),
    ];
    for (name, kind, op, own, mut both, wanted) in cases {
        // SAFETY: two numbers of two buffers of three.
        let code = unsafe {
            (call.reduce_local)(own.as_ptr().cast(), both.as_mut_ptr().cast(), 2, kind, op)
        };
        expect("MPI_Reduce_local", code, 0)?;
        expect(name, both, wanted)?;
    }
    Ok(())
}

/// A reduction of one, a message to oneself, and one to nobody.
fn messages(mpi: &Library, comm: Handle) -> Result<(), String> {
    let (call, values) = (&mpi.call, &mpi.values);
    let (out, mut into) = ([4_i64, -2], [0_i64; 2]);
    let (text, mut heard) = ([1_u8, 2, 3], [9_u8; 4]);
    let mut status = Status::new();
    let mut request = values.handles(2, values.request_null);
    let (kind, nobody) = (values.uint8, values.proc_null);
    // SAFETY: buffers of the lengths that are passed, which outlive the calls: the request is over
    // before they go.
    unsafe {
        let code = (call.allreduce)(
            out.as_ptr().cast(),
            into.as_mut_ptr().cast(),
            2,
            values.int64,
            values.max,
            comm,
        );
        expect("MPI_Allreduce", code, 0)?;
        expect("what MPI_Allreduce gives", into, out)?;
        let code = (call.isend)(text.as_ptr().cast(), 3, kind, 0, 7, comm, request.place(1));
        expect("MPI_Isend", code, 0)?;
        let place = heard.as_mut_ptr().cast();
        let code = (call.recv)(place, 3, kind, values.any_source, 7, comm, status.place());
        expect("MPI_Recv", code, 0)?;
        let code = (call.waitall)(2, request.place(0), values.no_status());
        expect("MPI_Waitall", code, 0)?;
        expect("MPI_REQUEST_NULL", request.get(1), values.request_null)?;
        expect("what was sent", heard, [1, 2, 3, 9])?;
        expect("MPI_SOURCE", status.source(values), 0 as c_int)?;
        let code = (call.recv)(place, 3, kind, nobody, 7, comm, values.no_status());
        expect("MPI_PROC_NULL", (code, heard), (0, [1, 2, 3, 9]))
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what} is {found:?}, not {wanted:?}")) }
}
