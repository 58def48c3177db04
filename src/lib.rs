//! The engine that the preload shim opens, and the SCR library: `mpi` is the only module that names
//! MPI, `api` is the C face, `engine` joins the two, `groups`
//! what some ranks do by themselves. Everything else is in [`scr_core`].

mod api;
mod engine;
mod groups;
mod mpi;
