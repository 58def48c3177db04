//! The life of a process with an engine: the start, which wires the parts of the shim together,
//! what a fork means for it, and the end.

#[cfg_attr(test, allow(dead_code))]
pub(crate) mod ending;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod start;
