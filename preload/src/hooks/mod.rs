//! The C edge: each file declares the symbols of one subject and their bodies.
//!
//! A body asks [`crate::engine::ask`] and ends in the real call. Real calls of the pass-through
//! case are made outside of [`crate::signal::guard::work`], so that they can be cancelled as
//! without us.

mod asynchronous;
mod attributes;
mod by_handle;
mod children;
mod close;
mod data;
mod directory;
mod ending;
mod environment;
mod extended;
mod file_actions;
mod formatted;
mod hidden;
mod intent;
mod lengths;
mod links;
mod mapping;
mod mpi;
mod mpi_files;
mod mpi_large;
mod names;
mod open;
mod programs;
mod queries;
mod signals;
mod stat;
mod stdio;
mod tree;
mod working_directory;
