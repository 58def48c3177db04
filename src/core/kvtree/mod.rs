//! The documents' "hash": a tree of strings, its text, packed and file forms (manual 1.1, section
//! 3).

mod decode;
mod encode;
pub mod file;
mod print;
mod tree;

pub use decode::DEPTH_MAX;
pub use tree::KvTree;
