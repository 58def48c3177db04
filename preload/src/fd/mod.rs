//! Descriptors on files of ours: which there are, and how one gets another file below it.

#[cfg_attr(test, allow(dead_code))]
pub(crate) mod changes;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod course;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod failing_store;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod handle;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod identity;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod in_order;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod lazy;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod logged;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod moves;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod open_files;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod release;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod reuse;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod stream_writes;
