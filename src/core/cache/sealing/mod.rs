//! How a dataset becomes complete and protected: the seal, its catalog, its marker.
//!
//! | file | job |
//! |---|---|
//! | `catalog.rs` | what a dataset holds: path, owner, size of every file of every rank |
//! | `seal.rs` | the two phases of a seal, confirmation |
//! | `marker.rs` | what a node knows of a sealed dataset as a whole |
//! | `encoder.rs` | the encoding of a seal on a thread beside the program |
//! | `under_way.rs` | such threads of a rank, and what their seals are asked for |
//! | `spare.rs` | whether a rank has a processor to spare for that |
//! | `protection.rs` | redundancy sets on the placement of a launch |
//! | `encoding.rs` | what a record tells of its encodings |
//! | `shared_store.rs` | who acts in a store of several nodes; its records |

pub(super) mod catalog;
pub(super) mod encoder;
pub(super) mod encoding;
pub(super) mod marker;
pub(super) mod node_catalog;
mod packed;
pub(super) mod protection;
pub(crate) mod seal;
pub(super) mod shared_store;
pub(super) mod spare;
pub(crate) mod under_way;
