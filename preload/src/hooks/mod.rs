//! The C edge: each file declares the symbols of one subject and their bodies. Real calls of the
//! pass-through case are made outside of [`crate::signal::guard::work`], so that they can be
//! cancelled as without us.

mod below;
mod family;
mod files;
mod mpi;
mod names;
mod process;
