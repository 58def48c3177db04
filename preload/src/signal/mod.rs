//! The guard of the shim's own work, and handlers of the program, which wait for it.

mod aside;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod guard;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod handlers;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod postponed;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod stand_in;
