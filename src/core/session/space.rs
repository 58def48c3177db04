//! A store that is full in the middle of a write: the file moves to the PFS, its descriptor too.
//! That, and files that found no room to begin with, is told once for the whole launch.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::fd::IntoRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::books::{Room, Way};
use super::namespace::{self as ns, Place};
use super::runtime::{Session, State};
use super::site::Links;
use super::tally::Count;
use crate::cache::NodeCatalog;
use crate::error::{Error, Result};
use crate::files::{CopyOptions, copy_file};
use crate::log;
use crate::system::test_pause;

/// Whether this rank's store was too small for a file, and whether that has been told.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    /// Where.
    met: Mutex<Option<PathBuf>>,
    told: AtomicBool,
}

impl Shortage {
    /// A file of this rank found no room in the store with this directory.
    pub fn met(&self, place: &Path) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.get_or_insert_with(|| place.to_path_buf());
    }

    /// Where it was.
    fn place(&self) -> Option<PathBuf> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Session {
    /// One rank tells, once, that files of the dataset are on the PFS for want of room. Collective
    /// only if files are there, which all ranks see in the catalog.
    ///
    /// # Errors
    /// Communication failed.
    pub(super) fn tell_shortage(
        &self,
        links: &Links,
        title: &str,
        catalog: &NodeCatalog,
    ) -> Result<()> {
        let shortage = &self.shortage;
        let on_prefix = catalog.has_files_on_prefix();
        if !on_prefix || shortage.told.load(Ordering::Relaxed) {
            return Ok(());
        }
        let own = self.site.rank as i64;
        let place = shortage.place();
        let mut teller = [if place.is_some() { own } else { -1 }];
        links.world.all_max(&mut teller)?;
        if teller[0] < 0 {
            return Ok(());
        }
        shortage.told.store(true, Ordering::Relaxed);
        if let Some(place) = place.filter(|_| teller[0] == own) {
            let place = place.display();
            log::warn(format_args!(
                "{}: {place} has no room for all of {title}; the rest goes straight to {}. A \
                 smaller SCR_CACHE_SIZE or a larger store makes room",
                self.site.node_name,
                self.site.prefix.display()
            ));
        }
        Ok(())
    }

    /// The file of `token` met ENOSPC, or is never quiet: what is written so far moves to the PFS.
    /// Returns a new descriptor with the same access mode and offset as `fd`; -1 if that is
    /// impossible.
    ///
    /// For a [lazy](super::TOKEN_LAZY) token: its file is about to change, and gets its place.
    pub fn evacuate(&self, token: u64, fd: i32) -> i32 {
        let woken = self.wake_lazy(token, fd);
        match woken.and_then(|file| file.map_or_else(|| self.try_evacuate(token, fd), Ok)) {
            Ok(file) => file.into_raw_fd(),
            Err(error) => {
                log::warn_once("evacuate", format_args!("rank {}: {error}", self.site.rank));
                -1
            }
        }
    }

    fn try_evacuate(&self, token: u64, fd: i32) -> Result<File> {
        let mut state = self.state();
        let nothing = || Error::Other("a file that moves to the prefix is not known".to_string());
        let tracked = state.tokens.get(token).cloned().ok_or_else(nothing)?;
        if tracked.way == Way::OnPrefix {
            let (name, prefix) = (&tracked.name, self.site.prefix.display());
            return Err(Error::Other(format!("{prefix} has no room for {name}, written there")));
        }
        if !self.is_hushed(&tracked.name) {
            let store = self.store_for(&state, &tracked.key);
            self.shortage.met(self.site.layout.cache_dir(&store));
        }
        if let Way::Shadow { copy, .. } = &tracked.way {
            return self.evacuate_shadow(&mut state, fd, copy);
        }
        let source = match (state.view.place(&tracked.name), &tracked.way) {
            (Place::Private(here), Way::Temporary) => Some(here),
            (Place::Cached(_, here), Way::Cached) => Some(here),
            // Another descriptor on the same file was here before, a moment ago.
            (Place::Prefix, Way::Cached | Way::Temporary) => None,
            _ => return Err(nothing()),
        };
        let target = self.site.on_prefix(&tracked.name);
        let options = CopyOptions { crc32: false, sync: false, ..CopyOptions::default() };
        if let Some(source) = &source {
            copy_file(source, &target, options)?;
        }
        let file = open_alike(fd, &target)?;
        test_pause("move.copied");
        if source.is_some() && state.view.take_private(&tracked.name).is_none() {
            state.machine.moved_to_prefix(&tracked.key, &tracked.name);
            self.tally.one(Count::FellBack);
            state.enter_file(&tracked.key, &tracked.name, true);
        }
        if let Some(one) = state.tokens.get_mut(token) {
            (one.way, one.room) = (Way::OnPrefix, Room::default());
        }
        if let Some(source) = source {
            ns::remove(&source)?;
        }
        Ok(file)
    }

    /// A private copy goes on as one on the PFS, for all descriptors that share it.
    fn evacuate_shadow(&self, state: &mut State, fd: i32, copy: &Path) -> Result<File> {
        let refuge = self.refuge();
        if copy.starts_with(&refuge) {
            // Either another descriptor on it was here before, or the PFS is full, too.
            return open_alike(fd, copy);
        }
        let number = copy.file_name().unwrap_or_default();
        let target = refuge.join(number);
        ns::make_parents(&refuge, &number.to_string_lossy())?;
        let options = CopyOptions { crc32: false, sync: false, ..CopyOptions::default() };
        copy_file(copy, &target, options)?;
        let file = open_alike(fd, &target)?;
        state.tokens.move_shadow(copy, &target);
        ns::remove(copy)?;
        Ok(file)
    }
}

/// Opens `path` with the access mode and the offset of `fd`.
pub(super) fn open_alike(fd: i32, path: &Path) -> Result<File> {
    let (flags, offset) = descriptor_info(fd)?;
    let access = flags & libc::O_ACCMODE;
    let mut file = OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .custom_flags(flags & (libc::O_APPEND | libc::O_SYNC | libc::O_DSYNC))
        .open(path)
        .map_err(|e| Error::io("cannot open", path, e))?;
    file.seek(SeekFrom::Start(offset)).map_err(|e| Error::io("cannot seek in", path, e))?;
    Ok(file)
}

/// Flags and offset of a descriptor.
pub(super) fn descriptor_info(fd: i32) -> Result<(i32, u64)> {
    let path = std::path::PathBuf::from(format!("/proc/self/fdinfo/{fd}"));
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io("cannot read", &path, e))?;
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
    };
    let flags = field("flags:").and_then(|word| i32::from_str_radix(word, 8).ok());
    let offset = field("pos:").and_then(|word| word.parse().ok());
    match (flags, offset) {
        (Some(flags), Some(offset)) => Ok((flags, offset)),
        _ => Err(Error::corrupt(path, "no flags or no position")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_descriptor_tells_its_mode_and_place() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"12345").unwrap();
        let (flags, offset) = descriptor_info(file.as_raw_fd()).unwrap();
        assert_eq!((flags & libc::O_ACCMODE, offset), (libc::O_RDWR, 5));
    }
}
