//! The part of SCR that knows nothing of MPI.
//!
//! Layers, lowest first; a module may use only modules of its own layer or lower ones
//! (`tests/tidy` checks it):
//!
//! | layer | modules |
//! |---|---|
//! | L0 | [`bytes`], [`error`], [`log`], [`progress`] |
//! | L1 | [`files`], [`system`] |
//! | L2 | [`kvtree`], [`params`], [`comm`], [`parts`], [`patterns`], [`streams`] |
//! | L3 | [`records`], [`descriptors`], [`events`], [`machine`] |
//! | L4 | [`redundancy`] |
//! | L5 | [`cache`], [`transfer`] |
//! | L6, in this order | `namespace`, `handles`, [`account`], [`launch`], [`restart`] |
//! | L7 | [`session`], [`operations`] |

#![deny(unsafe_code)]

pub mod account;
pub mod cache;
pub mod comm;
pub mod descriptors;
pub mod error;
pub mod events;
pub mod files;
mod handles;
pub mod kvtree;
pub mod launch;
pub mod log;
pub mod machine;
mod namespace;
pub mod operations;
pub mod params;
pub mod parts;
pub mod patterns;
pub mod progress;
pub mod records;
pub mod redundancy;
pub mod restart;
pub mod session;
pub mod streams;
pub mod system;
pub mod transfer;

pub use scr_abi::bytes;
