//! The engine: found and opened at MPI_Init, and asked.

#[cfg_attr(test, allow(dead_code))]
pub(crate) mod absence;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod ask;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod nothing;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod open;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod pointer;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod watch;

pub(crate) use pointer::{ActiveEngine, active, own_process};
