//! The C face of the engine: `shim` for the preload library, the rest for programs that call SCR.
//! Every function converts and asks; nothing is decided here.

mod config;
mod door;
mod fortran;
mod life;
mod parted;
mod restart;
mod shared;
mod shim;
mod write;
