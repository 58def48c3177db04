//! The collective start; what comes before it is `launch/`.
//!
//! | file | job |
//! |---|---|
//! | `alone.rs` | tests: a session of one rank |
//! | `helper.rs` | the helper thread of a rank: files that no sync point comes for |
//! | `start.rs` | the collective part of the start |

#[cfg(test)]
pub(super) mod alone;
mod helper;
mod start;
