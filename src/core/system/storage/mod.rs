//! Files and file systems.

pub(super) mod access;
pub(super) mod attributes;
pub(super) mod descriptor;
pub(super) mod durable;
pub(super) mod file_limit;
pub(super) mod memory;
pub(super) mod reserve;
pub(super) mod secure_dir;
pub(super) mod space;
