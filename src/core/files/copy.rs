//! Copies a file: holes stay holes, mode, times, a changed owner and the program's extended
//! attributes come along, the checksum is computed from the bytes in hand.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use super::{Crc32, open_own, read_own};
use crate::error::{Error, Result};
use crate::{progress, system};

/// What is in hand between read, checksum and write: it has to stay in the processor's cache. In
/// pieces of 128 KiB the checksum costs 1 % of a copy, in those of 256 KiB 6 %.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// From this size on it pays to tell the file system beforehand what comes.
const LARGE_BYTES: u64 = 1 << 20;
/// Between two begins of writing out: the disk works beside the copy.
const WRITEBACK_BYTES: u64 = 8 << 20;

/// How to copy.
pub struct CopyOptions<'a> {
    /// Most bytes moved between two calls of `progress`.
    pub buffer_bytes: usize,
    /// Compute the CRC32. Without it the kernel copies, and may share blocks.
    pub crc32: bool,
    /// Fsync the copy. Its name is made durable by the caller, with the directory.
    pub sync: bool,
    /// Called with the number of bytes moved since the last call: to throttle and to count. An
    /// error ends the copy.
    pub progress: Option<&'a mut dyn FnMut(u64) -> Result<()>>,
    /// Bytes from the begin that the target has already: they are read for the checksum, and not
    /// written again.
    pub resume_at: u64,
    /// Sync now and then, so that another copy can go on from there.
    pub durable: Option<Durable<'a>>,
    /// Who wants to know how fast it was; for those who call for a whole copy.
    pub pace: Option<&'a super::Pace>,
}

/// See [`CopyOptions::durable`].
pub struct Durable<'a> {
    /// Bytes between two syncs.
    pub every_bytes: u64,
    /// Called with the number of bytes from the begin that are durable.
    pub note: &'a mut dyn FnMut(u64) -> Result<()>,
}

impl Default for CopyOptions<'_> {
    fn default() -> Self {
        CopyOptions {
            buffer_bytes: 1 << 20,
            crc32: true,
            sync: true,
            progress: None,
            resume_at: 0,
            durable: None,
            pace: None,
        }
    }
}

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOutcome {
    /// Size of the file in bytes, holes included.
    pub bytes: u64,
    /// Checksum of the content, if asked for.
    pub crc32: Option<u32>,
}

/// Makes `to` a copy of the regular file `from`: `to` is created or replaced in place, and a
/// symbolic link there is refused. On an error what was written of `to` stays, to be removed by the
/// caller.
///
/// # Errors
/// [`Error::NoSpace`] if the file system of `to` is full, else [`Error::Io`]; also if `from`
/// becomes shorter meanwhile.
pub fn copy_file(from: &Path, to: &Path, options: CopyOptions<'_>) -> Result<CopyOutcome> {
    let sync = options.sync;
    let (copied, target) = copy_unsynced(from, to, options)?;
    if sync {
        target.sync_all().map_err(|error| write_failed(to, copied.bytes, error))?;
    }
    Ok(copied)
}

/// Does what [`copy_file`] does; the copy, which is open, is for the caller to sync.
///
/// # Errors
/// As [`copy_file`].
pub fn copy_unsynced(
    from: &Path,
    to: &Path,
    mut options: CopyOptions<'_>,
) -> Result<(CopyOutcome, File)> {
    let read_failed = |error| Error::io("cannot read", from, error);
    let source = read_own(from).map_err(|error| Error::io("cannot open", from, error))?;
    let metadata = source.metadata().map_err(read_failed)?;
    if !metadata.is_file() {
        return Err(Error::io("cannot copy", from, io::ErrorKind::InvalidInput.into()));
    }
    let bytes = metadata.len();
    let mut create = OpenOptions::new();
    create
        .write(true)
        .create(true)
        .truncate(options.resume_at == 0)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW);
    let target = open_own(to, &create).map_err(|error| Error::io("cannot create", to, error))?;
    let crc32 = options.crc32.then(Crc32::new);
    let is_large = options.sync && bytes >= LARGE_BYTES;
    let to_disk = is_large && !system::space(to).is_ok_and(|space| space.in_memory);
    if bytes >= LARGE_BYTES {
        system::will_read_in_order(&source);
    }
    let (synced, written_out) = (options.resume_at, options.resume_at);
    let mut copy = Copy { from, to, source, target, crc32, synced, to_disk, written_out };

    let mut done = 0;
    while let Some(data) = system::next_data(&copy.source, done, bytes).map_err(read_failed)? {
        copy.hole(data.start - done);
        done = data.end;
        copy.data(data, &mut options)?;
    }
    copy.hole(bytes - done);

    let Copy { source, target, crc32, .. } = copy;
    let times = FileTimes::new()
        .set_accessed(metadata.accessed().map_err(read_failed)?)
        .set_modified(metadata.modified().map_err(read_failed)?);
    let mode = metadata.permissions().mode() & 0o7777;
    keep_owner(&metadata, &target);
    system::clear_acl(&target);
    system::copy_user_attributes(&source, &target);
    target
        .set_len(bytes)
        .and_then(|()| target.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| target.set_times(times))
        .map_err(|error| write_failed(to, bytes, error))?;
    Ok((CopyOutcome { bytes, crc32: crc32.map(|crc32| crc32.value()) }, target))
}

/// Returns when the content was last changed: seconds, nanoseconds.
#[must_use]
pub fn modified(found: &fs::Metadata) -> (i64, i64) {
    (found.mtime(), found.mtime_nsec())
}

/// Returns the bytes of the file at `path`; 0 if there is none.
#[must_use]
pub fn size_at(path: &Path) -> u64 {
    path.metadata().map_or(0, |found| found.len())
}

/// Returns the permission bits of the file at `path`; those of a private one if there is none.
#[must_use]
pub fn mode_at(path: &Path) -> u32 {
    path.metadata().map_or(0o600, |found| found.mode() & 0o7777)
}

/// An owner or group that the program gave the file comes along where the system lets us. What it
/// has by its creation does not: the directory of the copy may give another group.
fn keep_owner(source: &fs::Metadata, target: &File) {
    let user = (source.uid() != system::user_id()).then(|| source.uid());
    let group = (source.gid() != system::group_id()).then(|| source.gid());
    if user.is_some() || group.is_some() {
        // Refused, it is as if the program had not been allowed to.
        let _ = fchown(target, user, group);
    }
}

struct Copy<'a> {
    from: &'a Path,
    to: &'a Path,
    source: File,
    target: File,
    crc32: Option<Crc32>,
    /// Bytes from the begin that are durable.
    synced: u64,
    /// The target is large, to be durable, and not in memory alone.
    to_disk: bool,
    /// Bytes from the begin that are on their way to the disk.
    written_out: u64,
}

impl Copy<'_> {
    fn hole(&mut self, bytes: u64) {
        if let Some(crc32) = &mut self.crc32 {
            crc32.update_zeros(bytes);
        }
    }

    fn data(&mut self, range: Range<u64>, options: &mut CopyOptions<'_>) -> Result<()> {
        let (from, to) = (self.from, self.to);
        let seek = SeekFrom::Start(range.start);
        self.source.seek(seek).map_err(|error| Error::io("cannot read", from, error))?;
        self.target.seek(seek).map_err(|error| Error::io("cannot write", to, error))?;
        let piece = options.buffer_bytes.max(1);
        let bytes = range.end - range.start;
        if self.to_disk && bytes >= LARGE_BYTES {
            // Room in one piece costs less than room for each page. Where there is none, or no such
            // call, the writes tell.
            let _ = system::reserve(self.target.as_raw_fd(), range.start, bytes);
        }
        let mut at = range.start;
        let in_hand = piece.min(BUFFER_BYTES_MAX);
        let mut buffer = if self.crc32.is_some() { vec![0; in_hand] } else { Vec::new() };
        let mut left = range.end - range.start;
        while left > 0 {
            // What the target has already ends a piece.
            let had = options.resume_at.saturating_sub(at);
            let want = left.min(piece as u64).min(if had > 0 { had } else { u64::MAX });
            let count = match &mut self.crc32 {
                Some(crc32) => {
                    let want = (want as usize).min(in_hand);
                    let count = read_some(&mut self.source, &mut buffer[..want])
                        .map_err(|error| Error::io("cannot read", from, error))?;
                    crc32.update(&buffer[..count]);
                    match had {
                        0 => self.target.write_all(&buffer[..count]),
                        _ => self.target.seek(SeekFrom::Current(count as i64)).map(drop),
                    }
                    .map_err(|error| write_failed(to, left, error))?;
                    count as u64
                }
                // Lets the kernel copy (copy_file_range) where both file systems can.
                None => io::copy(&mut (&self.source).take(want), &mut self.target)
                    .map_err(|error| write_failed(to, left, error))?,
            };
            if count == 0 {
                let cut = io::ErrorKind::UnexpectedEof;
                return Err(Error::io("became shorter while it was copied:", from, cut.into()));
            }
            left -= count;
            at += count;
            progress::add_bytes(count);
            if self.to_disk {
                self.write_out(at);
            }
            self.sync_now_and_then(at, options)?;
            if had > 0 {
                continue; // Nothing was moved.
            }
            if let Some(progress) = &mut options.progress {
                progress(count)?;
            }
        }
        Ok(())
    }
}

impl Copy<'_> {
    /// Begins to write out what is new up to `at`, once that is much.
    fn write_out(&mut self, at: u64) {
        let new = at.saturating_sub(self.written_out);
        if new >= WRITEBACK_BYTES {
            system::begin_writeback(&self.target, self.written_out, new);
            self.written_out = at;
        }
    }

    fn sync_now_and_then(&mut self, at: u64, options: &mut CopyOptions<'_>) -> Result<()> {
        let Some(durable) = &mut options.durable else { return Ok(()) };
        if at < self.synced.saturating_add(durable.every_bytes) {
            return Ok(());
        }
        self.target.sync_data().map_err(|error| write_failed(self.to, 0, error))?;
        self.synced = at;
        (durable.note)(at)
    }
}

fn read_some(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A full store is told apart, since the answer to it is another one.
fn write_failed(to: &Path, need_bytes: u64, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let free_bytes = system::space(to).map_or(0, |space| space.free_bytes);
            Error::NoSpace { path: to.to_path_buf(), need_bytes, free_bytes }
        }
        _ => Error::io("cannot write", to, error),
    }
}
