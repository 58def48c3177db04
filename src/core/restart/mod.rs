//! With what the program goes on: decided from what caches and prefix hold, without a look at any
//! file. Whoever carries it out tells what he found, and asks again.

pub(crate) mod candidates;
mod gone;
pub(crate) mod index;
pub(crate) mod plan;
#[cfg(test)]
mod plan_table;
pub(crate) mod pointer;
pub(crate) mod removal;
mod theirs;
pub(crate) mod thrown;
pub(crate) mod verdict;
