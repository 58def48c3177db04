//! The preload library from outside: small programs under `LD_PRELOAD`, with an engine that the
//! tests can see through (`programs/fake_engine.c`).
//!
//! Most programs are linked with a fake MPI, so that they start in no time and need no MPI; `mpi`
//! and
//! `launch` use the real ones.

#![allow(clippy::unwrap_used)] // a test that cannot go on stops

#[path = "../support/programs.rs"]
mod programs;
mod shim;

mod descriptors;
mod families;
mod foreign;
mod launch;
mod listings;
mod logged;
mod messages;
mod mpi;
mod parted;
mod symbols;
mod threads;
mod tools;
