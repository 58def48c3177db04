//! The functions of MPI that the engine calls, as the program's own MPI has them.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

use super::values::Handle;

/// A place for a handle, or several ([`super::values::Handles`]).
type Place = *mut c_void;
type Send = *const c_void;
type Receive = *mut c_void;
/// A place for a status, or the word that none is wanted.
type Status = *mut c_void;
type OnCopy =
    unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
pub(super) type OnDelete = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void) -> c_int;
/// MPI passes more, which nobody reads.
type OnError = unsafe extern "C" fn(*mut c_void, *mut c_int);

/// Declares the table. Handles are words; a function that takes one of 32 bits reads those alone.
macro_rules! functions {
    ($( $field:ident = $name:literal($($argument:ty),*); )+) => {
        pub(super) struct Functions {
            $( pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int, )+
        }

        impl Functions {
            /// Fails with the name of a function that is not there. Safety: what is found under the
            /// name of a function of MPI is that function.
            pub(super) unsafe fn find(
                look_up: impl Fn(&CStr) -> Option<std::num::NonZeroUsize>,
            ) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $( $field: {
                        let name = concat!("PMPI_", $name, "\0");
                        let found = CStr::from_bytes_with_nul(name.as_bytes()).ok();
                        let address = found.and_then(&look_up).ok_or($name)?;
                        // SAFETY: by this function's contract, and the arguments are those that
                        // the standard gives it.
                        unsafe {
                            std::mem::transmute::<
                                usize,
                                unsafe extern "C" fn($($argument),*) -> c_int,
                            >(address.get())
                        }
                    }, )+
                })
            }
        }
    };
}

functions! {
    allgather = "Allgather"(Send, c_int, Handle, Receive, c_int, Handle, Handle);
    allgatherv = "Allgatherv"(
        Send, c_int, Handle, Receive, *const c_int, *const c_int, Handle, Handle);
    allreduce = "Allreduce"(Send, Receive, c_int, Handle, Handle, Handle);
    barrier = "Barrier"(Handle);
    bcast = "Bcast"(Receive, c_int, Handle, c_int, Handle);
    comm_compare = "Comm_compare"(Handle, Handle, *mut c_int);
    comm_create_errhandler = "Comm_create_errhandler"(OnError, Place);
    comm_create_keyval = "Comm_create_keyval"(OnCopy, OnDelete, *mut c_int, *mut c_void);
    comm_dup = "Comm_dup"(Handle, Place);
    comm_group = "Comm_group"(Handle, Place);
    comm_free = "Comm_free"(Place);
    comm_free_keyval = "Comm_free_keyval"(*mut c_int);
    comm_get_attr = "Comm_get_attr"(Handle, c_int, *mut *mut c_void, *mut c_int);
    comm_get_parent = "Comm_get_parent"(Place);
    comm_rank = "Comm_rank"(Handle, *mut c_int);
    comm_set_attr = "Comm_set_attr"(Handle, c_int, *mut c_void);
    comm_set_errhandler = "Comm_set_errhandler"(Handle, Handle);
    comm_size = "Comm_size"(Handle, *mut c_int);
    comm_split = "Comm_split"(Handle, c_int, c_int, Place);
    comm_test_inter = "Comm_test_inter"(Handle, *mut c_int);
    errhandler_free = "Errhandler_free"(Place);
    finalize = "Finalize"();
    finalized = "Finalized"(*mut c_int);
    get_library_version = "Get_library_version"(*mut c_char, *mut c_int);
    group_free = "Group_free"(Place);
    group_translate_ranks = "Group_translate_ranks"(
        Handle, c_int, *const c_int, Handle, *mut c_int);
    iprobe = "Iprobe"(c_int, c_int, Handle, *mut c_int, Status);
    irecv = "Irecv"(Receive, c_int, Handle, c_int, c_int, Handle, Place);
    isend = "Isend"(Send, c_int, Handle, c_int, c_int, Handle, Place);
    query_thread = "Query_thread"(*mut c_int);
    recv = "Recv"(Receive, c_int, Handle, c_int, c_int, Handle, Status);
    reduce_local = "Reduce_local"(Send, Receive, c_int, Handle, Handle);
    reduce_scatter_block = "Reduce_scatter_block"(Send, Receive, c_int, Handle, Handle, Handle);
    send = "Send"(Send, c_int, Handle, c_int, c_int, Handle);
    sendrecv = "Sendrecv"(
        Send, c_int, Handle, c_int, c_int, Receive, c_int, Handle, c_int, c_int, Handle, Status);
    testall = "Testall"(c_int, Place, *mut c_int, Status);
    waitall = "Waitall"(c_int, Place, Status);
}
