//! The ground floor: what libc really does, locks, messages, the macro that exports symbols.

#[cfg(not(test))]
pub(crate) mod family;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod lock;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod message;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod real;
#[cfg(test)]
pub(crate) mod testing;
