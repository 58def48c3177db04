//! Files that are open, in this rank and in processes that it has started.
//!
//! | file | job |
//! |---|---|
//! | `lazy.rs` | openers that could write and mostly only read |
//! | `shadow.rs` | private copies of sealed files |
//! | `co_writers.rs` | ranks of a node that change one complete file at the same time |
//! | `others.rs` | changes of another rank's file |
//! | `children.rs` | what processes of a rank ask |
//! | `by_child.rs` | what they change |
//! | `lent.rs` | files that they share with the rank |
//! | `closing.rs` | a descriptor is open, or closed |
//! | `waking.rs` | private copies, before a name means something else |
//! | `evacuation.rs` | a descriptor moves before a change |

pub(super) mod by_child;
pub(super) mod children;
mod closing;
pub(super) mod co_writers;
mod evacuation;
pub(super) mod lazy;
pub(super) mod lent;
pub(super) mod others;
pub(super) mod shadow;
mod waking;
