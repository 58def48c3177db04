//! Where a dataset lies on a node, and what happens where it finds no room.
//!
//! | file | job |
//! |---|---|
//! | `choice.rs` | which store a dataset goes to |
//! | `room.rs` | room for a file before it is routed there |
//! | `pages.rs` | what evicted files leave for the program to write over |
//! | `setback.rs` | a store that cannot take a file |
//! | `space.rs` | a store that is full or fails in mid-write |

pub(super) mod choice;
pub(super) mod pages;
pub(super) mod room;
pub(super) mod setback;
pub(super) mod space;
