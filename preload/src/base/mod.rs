//! The ground floor: what libc really does, locks, messages, the macro that exports symbols.

#[cfg(not(test))]
pub(crate) mod family;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod lock;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod message;
/// The engine's table of messages; what is said has an id of it.
#[allow(dead_code, unused_imports, reason = "the shim says a few of them only")]
#[path = "../../../src/core/log/messages/mod.rs"]
pub(crate) mod messages;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod objects;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod real;
#[cfg(test)]
pub(crate) mod testing;
