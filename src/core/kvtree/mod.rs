//! The documents' "hash": a tree of strings, its text, packed and file forms (manual 1.1, section
//! 3).
//!
//! | file | job |
//! |---|---|
//! | `tree.rs` | [`KvTree`], the tree itself (3.2) |
//! | `encode.rs`, `decode.rs` | packed form (3.4.1) |
//! | `file.rs` | file form: header, flags, checksum (3.4.2) |
//! | `print.rs` | text forms (3.1, 3.3) |
//!
//! Over ranks, trees travel with [`crate::comm::trees`].

mod decode;
mod encode;
pub mod file;
mod print;
mod tree;

pub use decode::{DEPTH_MAX, Malformed};
pub use tree::KvTree;
