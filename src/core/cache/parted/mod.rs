//! Files that ranks of several nodes have written together, at the seal.

mod unlogged;
pub mod whole;
