//! Where redundancy files lie.

/// Directory of the redundancy files inside the dataset directory.
pub(crate) const REDUNDANCY_DIR: &str = ".scr";

/// Mode of directories below a dataset directory.
pub(super) const DIRECTORY_MODE: u32 = 0o700;
