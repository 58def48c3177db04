//! Where the records of a prefix are, and who changes them.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::lease::{self, Taken};
use crate::launch::JobPlaces;
use crate::namespace::STATE_FOLDER;
use crate::system;

pub(super) fn state_dir(prefix: &Path) -> PathBuf {
    prefix.join(STATE_FOLDER)
}

pub(super) fn holder() -> String {
    format!("host {}, process {}", system::hostname(), std::process::id())
}

/// Does `action` while no launch uses the prefix.
pub fn alone_on_prefix<T>(prefix: &Path, action: impl FnOnce() -> Result<T>) -> Result<T> {
    let state = state_dir(prefix);
    match state.is_dir() {
        true => alone_in(&state, &prefix.display(), action),
        false => action(),
    }
}

/// Does `action` while no launch uses the cache of this node, unless the node has none.
pub(super) fn alone_on_node<T: Default>(
    places: &JobPlaces,
    action: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let control = &places.layout.control_dir;
    match control.is_dir() {
        true => alone_in(control, &"it", action),
        false => Ok(T::default()),
    }
}

fn alone_in<T>(folder: &Path, what: &dyn Display, action: impl FnOnce() -> Result<T>) -> Result<T> {
    match lease::take(&folder.join("lease"), &holder(), lease::PATIENCE, || {})? {
        Taken::Busy(other) => Err(Error::Busy(format!("a live run uses {what} ({other})"))),
        Taken::Ours(_lease) => action(),
    }
}
