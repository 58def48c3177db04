//! An exchange that goes on while the program does: one nonblocking send and one receive.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use mpi::ffi;
use scr_core::comm::{Buffers, Pending};
use scr_core::error::Result;

use super::communicator::{MpiComm, TAG_EXCHANGE, address};
use super::{check, wait};

/// Both requests, with the buffers that they work on.
pub struct Exchange {
    requests: [ffi::MPI_Request; 2],
    buffers: Buffers,
    is_over: bool,
}

// SAFETY: a request handle is a plain value for MPI; the engine makes its MPI calls on one thread
// at a time, and moving the handles and buffers does not move what MPI works on: the heap.
unsafe impl Send for Exchange {}

impl Exchange {
    /// Begins it. Both buffers are below what an `int` counts; what is empty is no message.
    ///
    /// # Errors
    /// [`scr_core::error::Error::Comm`] when MPI refuses.
    pub fn begin(comm: &MpiComm, buffers: Buffers, to: usize, from: usize) -> Result<Exchange> {
        // SAFETY: a constant of the MPI library, defined before main.
        let null = unsafe { [ffi::RSMPI_REQUEST_NULL; 2] };
        let mut one = Exchange { requests: null, buffers, is_over: false };
        let Buffers { out, into } = &mut one.buffers;
        // SAFETY: a constant of the MPI library, defined before main.
        let nobody = unsafe { ffi::RSMPI_PROC_NULL };
        // SAFETY: the pointer and the count describe `into`, which is neither touched nor dropped
        // before the request is over.
        let code = unsafe {
            ffi::PMPI_Irecv(
                into.as_mut_ptr().cast::<c_void>(),
                into.len() as c_int,
                ffi::RSMPI_UINT8_T,
                if into.is_empty() { nobody } else { from as c_int },
                TAG_EXCHANGE,
                comm.raw,
                &mut one.requests[0],
            )
        };
        check(code, "MPI_Irecv")?;
        // SAFETY: as above, of `out`.
        let code = unsafe {
            ffi::PMPI_Isend(
                address(out),
                out.len() as c_int,
                ffi::RSMPI_UINT8_T,
                if out.is_empty() { nobody } else { to as c_int },
                TAG_EXCHANGE,
                comm.raw,
                &mut one.requests[1],
            )
        };
        check(code, "MPI_Isend")?;
        Ok(one)
    }
}

impl Exchange {
    /// Gives the buffers back: both requests are through.
    fn end(&mut self) -> Buffers {
        self.is_over = true;
        std::mem::take(&mut self.buffers)
    }
}

impl Pending for Exchange {
    fn advance(&mut self) -> Result<Option<Buffers>> {
        let mut flag = 0;
        // SAFETY: two requests of ours; no statuses are wanted, and the flag is a local.
        let code = unsafe {
            let (all, nothing) = (self.requests.as_mut_ptr(), ffi::RSMPI_STATUSES_IGNORE);
            ffi::PMPI_Testall(2, all, &mut flag, nothing)
        };
        check(code, "MPI_Testall")?;
        Ok((flag != 0).then(|| self.end()))
    }

    fn wait(&mut self) -> Result<Buffers> {
        // SAFETY: two requests of ours; no statuses are wanted.
        let code = wait(|| unsafe {
            ffi::PMPI_Waitall(2, self.requests.as_mut_ptr(), ffi::RSMPI_STATUSES_IGNORE)
        });
        check(code, "MPI_Waitall")?;
        Ok(self.end())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            // MPI may write to them, or read them, as long as the process lives.
            std::mem::forget(std::mem::take(&mut self.buffers));
        }
    }
}
