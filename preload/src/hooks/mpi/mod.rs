//! Calls of MPI: sync points, the begin and the end, files.

mod by_handle;
mod calls;
mod files;
mod hints;
mod large;
mod ompio;
mod opened;
