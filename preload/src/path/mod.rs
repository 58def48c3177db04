//! From what the program wrote to the one name of a file, and what is known of names.

#[cfg_attr(test, allow(dead_code))]
pub(crate) mod aliases;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod canonical;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod disk;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod glance;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod listing;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod memory;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod question;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod spellings;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod text;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod turns;
