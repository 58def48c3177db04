//! The ground floor: what libc really does, what a thread is in, locks, messages.

pub(crate) mod errno;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod lock;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod message;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod real;
#[cfg(test)]
pub(crate) mod testing;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod thread;
