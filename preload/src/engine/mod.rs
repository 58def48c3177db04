//! The engine: found and opened at MPI_Init, asked by the hooks, told of the end.

#[cfg_attr(test, allow(dead_code))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod absence;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod ask;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod ending;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod open;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod pointer;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod start;
#[cfg_attr(test, allow(dead_code))]
mod watch;

pub(crate) use pointer::{Active, active, own_process};
