//! From the start of the engine to the end of the process.

#[cfg_attr(test, allow(dead_code))]
pub(crate) mod ending;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod start;
