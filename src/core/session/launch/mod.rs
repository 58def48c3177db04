//! The collective start; what comes before it is `launch/`.
//!
//! | file | job |
//! |---|---|
//! | `helper.rs` | the helper thread of a rank: files that no sync point comes for |
//! | `start.rs` | the collective part of the start |

mod helper;
mod start;
