//! Where redundancy files lie.

pub(crate) const REDUNDANCY_DIR: &str = ".scr";

pub(super) const DIRECTORY_MODE: u32 = 0o700;
