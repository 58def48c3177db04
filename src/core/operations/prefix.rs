//! Where the records of a prefix are, and who changes them.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::lease::{self, Taken};
use crate::namespace::STATE_FOLDER;
use crate::system;

pub(super) fn state_dir(prefix: &Path) -> PathBuf {
    prefix.join(STATE_FOLDER)
}

pub(super) fn holder() -> String {
    format!("host {}, process {}", system::hostname(), std::process::id())
}

/// Does `action` while no launch uses the prefix.
pub fn alone_on_prefix<T>(
    prefix: &Path,
    holder: &str,
    action: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let state = prefix.join(STATE_FOLDER);
    if !state.is_dir() {
        return action();
    }
    match lease::take(&state.join("lease"), holder, lease::PATIENCE, || {})? {
        Taken::Busy(other) => {
            Err(Error::Busy(format!("a live run uses {} ({other})", prefix.display())))
        }
        Taken::Ours(_lease) => action(),
    }
}
