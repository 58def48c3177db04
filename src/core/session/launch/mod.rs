//! The collective start; what comes before it is `launch/`.
//!
//! | file | job |
//! |---|---|
//! | `aliases.rs` | what is written through symbolic links |
//! | `start.rs` | the collective part of the start |

pub(super) mod aliases;
pub(super) mod start;
