//! Names: what they lead to, and how they are made, moved and removed.

mod attributes;
mod directory;
pub(super) mod entries;
mod extended;
mod links;
mod queries;
mod stat;
mod tree;
mod working_directory;
