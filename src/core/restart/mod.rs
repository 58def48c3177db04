//! With what the program goes on: decided from what caches and prefix hold, without a look at any
//! file; who carries it out tells what he found, and asks again.
//!
//! | file | job |
//! |---|---|
//! | `index.rs` | what the prefix has, by its index |
//! | `theirs.rs` | a prefix that the C implementation has left |
//! | `candidates.rs` | what a run may begin with, in the order in which it is to be tried |
//! | `verdict.rs` | what may become of a dataset |
//! | `removal.rs` | what somebody has removed, and what that says of newer ones |
//! | `pointer.rs` | what a pointer file says of them |
//! | `thrown.rs` | what the program had deleted of older ones |
//! | `plan.rs` | what becomes of each |
//! | `plan_table.rs` | the table of what becomes of what |

pub(crate) mod candidates;
pub(crate) mod index;
pub(crate) mod plan;
#[cfg(test)]
mod plan_table;
pub(crate) mod pointer;
pub(crate) mod removal;
mod theirs;
pub(crate) mod thrown;
pub(crate) mod verdict;
