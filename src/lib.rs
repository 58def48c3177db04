//! The engine that the preload shim opens, and the SCR library.
//!
//! [`mpi`] is the only module that names MPI; [`api`] is the C face. Everything else is in
//! [`scr_core`].

pub mod api;
pub mod mpi;
