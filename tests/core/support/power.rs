//! What a power cut leaves of a node's storage: what was made durable, and nothing else.
//!
//! A file has the content of its last fsync, or none. A name is there, is gone or is another one
//! for good when its directory was synced after that; else it is undone, newest first.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::{CString, OsStr, c_int};
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The storage of a node.
pub struct Power {
    node: PathBuf,
    /// Where what has lost its last name is kept.
    graves: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was synced, by inode.
    synced: HashMap<(u64, u64), u64>,
    changes: Vec<Change>,
    dug: u64,
}

/// A name in a directory.
struct Name {
    dir: File,
    name: CString,
}

/// A change of names that is not durable yet, in the directory with that inode.
pub struct Change {
    dir: (u64, u64),
    what: What,
}

enum What {
    Made(Name),
    Gone(Name, PathBuf),
    Moved(Name, Name, Option<PathBuf>),
}

impl Power {
    pub fn new(node: &Path, graves: &Path) -> Power {
        let _ = fs::create_dir_all(graves);
        let (node, graves) = (node.to_path_buf(), graves.to_path_buf());
        Power { node, graves, state: Mutex::default() }
    }

    fn name(&self, path: &Path) -> Option<(Name, (u64, u64))> {
        let dir = File::open(path.parent()?).ok()?;
        let found = dir.metadata().ok()?;
        let name = CString::new(path.file_name()?.as_bytes()).ok()?;
        path.starts_with(&self.node).then_some((Name { dir, name }, (found.dev(), found.ino())))
    }

    /// A second name for what `path` is about to lose.
    fn dig(&self, path: &Path) -> Option<PathBuf> {
        let is_file = path.symlink_metadata().is_ok_and(|found| !found.is_dir());
        let mut state = self.state.lock().unwrap();
        state.dug += 1;
        let grave = self.graves.join(state.dug.to_string());
        (is_file && fs::hard_link(path, &grave).is_ok()).then_some(grave)
    }

    /// `path` is about to be made, unless it is there.
    pub fn makes(&self, path: &Path) -> Option<Change> {
        if path.symlink_metadata().is_ok() {
            return None;
        }
        let (name, dir) = self.name(path)?;
        Some(Change { dir, what: What::Made(name) })
    }

    /// `path` is about to be removed.
    pub fn removes(&self, path: &Path) -> Option<Change> {
        let (name, dir) = self.name(path)?;
        Some(Change { dir, what: What::Gone(name, self.dig(path)?) })
    }

    /// `from` is about to become `to`.
    pub fn moves(&self, from: &Path, to: &Path) -> Option<Change> {
        let ((from, _), (target, dir)) = (self.name(from)?, self.name(to)?);
        Some(Change { dir, what: What::Moved(from, target, self.dig(to)) })
    }

    /// That has been done.
    pub fn done(&self, change: Option<Change>) {
        self.state.lock().unwrap().changes.extend(change);
    }

    /// What the descriptor leads to was synced.
    pub fn synced(&self, path: &Path) {
        let Ok(found) = path.metadata() else { return };
        let inode = (found.dev(), found.ino());
        let mut state = self.state.lock().unwrap();
        match found.is_dir() {
            true => state.changes.retain(|change| change.dir != inode),
            false => drop(content(path).map(|content| state.synced.insert(inode, content))),
        }
    }

    /// The power is cut, and comes back.
    pub fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        lose_content(&self.node, &state.synced);
        for change in std::mem::take(&mut state.changes).into_iter().rev() {
            undo(change.what);
        }
        drop(state);
        let _ = fs::remove_dir_all(&self.graves);
    }
}

fn content(path: &Path) -> Option<u64> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.read_to_end(&mut bytes).ok()?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Some(hasher.finish())
}

fn lose_content(dir: &Path, synced: &HashMap<(u64, u64), u64>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, Ok(found)) = (entry.path(), entry.metadata()) else { continue };
        if found.is_dir() {
            lose_content(&path, synced);
        } else if synced.get(&(found.dev(), found.ino())).copied() != content(&path) {
            let _ = File::options().write(true).truncate(true).open(&path);
        }
    }
}

impl Name {
    fn path(&self) -> PathBuf {
        let dir = PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_raw_fd() as c_int));
        dir.join(OsStr::from_bytes(self.name.as_bytes()))
    }
}

fn undo(what: What) {
    match what {
        What::Made(name) => {
            let path = name.path();
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        What::Gone(name, grave) => drop(fs::hard_link(grave, name.path())),
        What::Moved(from, to, grave) => {
            let moved = fs::rename(to.path(), from.path());
            if let Some(grave) = grave.filter(|_| moved.is_ok()) {
                let _ = fs::hard_link(grave, to.path());
            }
        }
    }
}
