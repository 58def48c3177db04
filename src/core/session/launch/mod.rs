//! The collective start; what comes before it is `launch/`.
//!
//! | file | job |
//! |---|---|
//! | `aliases.rs` | what is written through symbolic links |
//! | `helper.rs` | the helper thread of a rank: files that no sync point comes for |
//! | `start.rs` | the collective part of the start |

pub(super) mod aliases;
mod helper;
pub(super) mod start;
