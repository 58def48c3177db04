//! Parts of files that several nodes write together: which bytes of the whole file each has, and
//! what the whole comes to (docs/internals/shared_files.md).
//!
//! | file | job |
//! |---|---|
//! | `extents.rs` | sorted disjoint pieces of a file, and their text in records |
//! | `node_log.rs` | what a rank, or all of a node, have done to a file |
//! | `order.rs` | which of two moments was the later one |
//! | `owners.rs` | who has written which byte last, so far |
//! | `resolve.rs` | who has which byte, after all have written |
//! | `share.rs` | a part's share in the checksum of the whole file |

mod extents;
mod node_log;
mod order;
mod owners;
mod resolve;
mod share;

pub use extents::{Extent, Extents, PartHere};
pub use node_log::{Cut, NodeLog, Write};
pub use order::Order;
pub use owners::Owners;
pub use resolve::{Resolved, resolve, settle};
pub use share::{CrcShare, whole_crc32};
