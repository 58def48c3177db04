//! Where a dataset lies on a node, and what happens where it finds no room.
//!
//! | file | job |
//! |---|---|
//! | `job.rs` | where a job has its directories |
//! | `resources.rs` | what the resource manager tells of the job |
//! | `choice.rs` | which store a dataset goes to |
//! | `room.rs` | room for a file before it is routed there |
//! | `leftovers.rs` | what evicted datasets have left there |
//! | `setback.rs` | a store that cannot take a file |
//! | `space.rs` | a store that is full or fails in mid-write |
//! | `protection.rs` | redundancy sets on the placement of this launch |

pub(super) mod choice;
pub(super) mod job;
pub(super) mod leftovers;
pub(super) mod protection;
pub(super) mod resources;
pub(super) mod room;
pub(super) mod setback;
pub(super) mod space;
