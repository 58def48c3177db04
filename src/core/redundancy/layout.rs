//! All files of a member as one: concatenated in index order, zeros after the end (manual 1.1,
//! section 7.3.1).
//!
//! Bytes that pass are hashed, so a pass over all of them also gives each file's CRC32. A member
//! may have more files than a process may open: at most [`OPEN_FILES_MAX`] are open at a time.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::Spares;
use super::folder::DIRECTORY_MODE;
use super::running_crc::RunningCrc;
use super::spares::create_file;
use crate::error::{Error, Result};
use crate::files::{create_dirs, open_own, remove_file_if_there, sync_dir};
use crate::records::{FileContent, FileMeta};
use crate::system::begin_writeback;

/// Open files of one logical file; the program's own limit is not ours to use up.
const OPEN_FILES_MAX: usize = 32;

struct MemberFile {
    content: FileContent,
    /// Its index in the member's list.
    index: usize,
    /// Where it begins in the concatenation, in bytes.
    start: u64,
    file: Option<File>,
    crc32: RunningCrc,
}

pub(super) struct LogicalFile {
    /// In order of `start`.
    parts: Vec<MemberFile>,
    /// Length of the list that the parts' indexes refer to.
    listed: usize,
    total: u64,
    /// Indexes into `parts` of the open ones, the oldest first.
    open: VecDeque<usize>,
    writable: bool,
}

impl LogicalFile {
    /// Opens `files` of `dir`, each of which has to have its recorded size.
    pub fn open(dir: &Path, files: &[FileMeta]) -> Result<Self> {
        Self::over(files, false, |_, file| {
            let content = FileContent::of(dir, file)?;
            content.check()?;
            Ok(content)
        })
    }

    /// Creates an empty file of the recorded size for each of `files`, at the path that `place`
    /// gives for it; directories on the way, too. What is there already is replaced. Of `spares`,
    /// if given, files are made that hold old content until they are written.
    pub fn create(
        files: &[FileMeta],
        spares: Option<&Spares>,
        mut place: impl FnMut(usize, &FileMeta) -> Result<PathBuf>,
    ) -> Result<Self> {
        let logical = Self::over(files, true, |index, file| {
            Ok(FileContent::dense(place(index, file)?, file.size))
        })?;
        for part in &logical.parts {
            let (path, size) = (part.content.path(), part.content.size());
            if let Some(parent) = path.parent() {
                create_dirs(parent, DIRECTORY_MODE)?;
            }
            // A leftover of a run that was cut off may already have a mode without write
            // permission.
            remove_file_if_there(path)?;
            match spares {
                Some(spares) => spares.create(path, size)?,
                None => create_file(path, size)?,
            };
        }
        Ok(logical)
    }

    fn over(
        files: &[FileMeta],
        writable: bool,
        mut content: impl FnMut(usize, &FileMeta) -> Result<FileContent>,
    ) -> Result<Self> {
        let (mut parts, mut total) = (Vec::new(), 0_u64);
        for (index, file) in files.iter().enumerate().filter(|(_, file)| !file.on_prefix) {
            let (content, crc32) = (content(index, file)?, RunningCrc::default());
            parts.push(MemberFile { content, index, start: total, file: None, crc32 });
            // Sizes may come from a damaged record.
            total = total.checked_add(file.size).ok_or_else(|| {
                Error::Unreadable(format!("the recorded size of {} is wrong", file.name))
            })?;
        }
        Ok(LogicalFile { parts, listed: files.len(), total, open: VecDeque::new(), writable })
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// Fills `buffer` from `offset` on; what lies after the end is zero.
    pub fn read_padded(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while let Some((part, at, bytes)) = self.piece(offset + done as u64, buffer.len() - done) {
            let target = &mut buffer[done..done + bytes];
            self.with_part(part, |part, file| {
                let read = part.content.read_exact_at(file, target, at);
                read.map_err(|error| Error::io("cannot read", part.content.path(), error))?;
                part.crc32.update(at, target);
                Ok(())
            })?;
            done += bytes;
        }
        buffer[done..].fill(0);
        Ok(())
    }

    /// Writes `bytes` at `offset`; what lies after the end is padding and is dropped.
    pub fn write_padded(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while let Some((part, at, count)) = self.piece(offset + done as u64, bytes.len() - done) {
            let source = &bytes[done..done + count];
            self.with_part(part, |part, file| {
                file.write_all_at(source, at)
                    .map_err(|error| Error::io("cannot write", part.content.path(), error))?;
                part.crc32.update(at, source);
                begin_writeback(file, at, source.len() as u64);
                Ok(())
            })?;
            done += count;
        }
        Ok(())
    }

    /// Returns the CRC32 of each file of the list; `None` if it has not passed completely.
    pub fn crcs(&self) -> Vec<Option<u32>> {
        let mut crcs = vec![None; self.listed];
        for part in &self.parts {
            crcs[part.index] = part.crc32.value(part.content.size());
        }
        crcs
    }

    /// Reads what has not passed, so that every file has its CRC32.
    pub fn read_rest(&mut self) -> Result<()> {
        for part in 0..self.parts.len() {
            self.with_part(part, |part, file| {
                let MemberFile { crc32, content, .. } = part;
                crc32.complete(content.size(), |at, into| {
                    content
                        .read_exact_at(file, into, at)
                        .map_err(|error| Error::io("cannot read", content.path(), error))
                })
            })?;
        }
        Ok(())
    }

    pub fn sync(&mut self) -> Result<()> {
        let mut dirs = BTreeSet::new();
        for part in 0..self.parts.len() {
            self.with_part(part, |part, file| {
                let path = part.content.path();
                dirs.extend(path.parent().map(Path::to_owned));
                file.sync_all().map_err(|error| Error::io("cannot fsync", path, error))
            })?;
        }
        dirs.iter().try_for_each(|dir| sync_dir(dir))
    }

    /// The longest piece from `offset` on that lies in one file: part, place, bytes.
    fn piece(&self, offset: u64, bytes_max: usize) -> Option<(usize, u64, usize)> {
        if bytes_max == 0 || offset >= self.total {
            return None;
        }
        // The last one that begins at or before the offset: empty files before it are passed over.
        let part = self.parts.partition_point(|part| part.start <= offset) - 1;
        let at = offset - self.parts[part].start;
        let left = self.parts[part].content.size() - at;
        Some((part, at, left.min(bytes_max as u64) as usize))
    }

    fn with_part<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut MemberFile, &File) -> Result<T>,
    ) -> Result<T> {
        if self.parts[index].file.is_none()
            && self.open.len() >= OPEN_FILES_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            self.parts[oldest].file = None;
        }
        let part = &mut self.parts[index];
        let file = match part.file.take() {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                let options = options.read(!self.writable).write(self.writable);
                let path = part.content.path();
                let file = open_own(path, options)
                    .map_err(|error| Error::io("cannot open", path, error))?;
                self.open.push_back(index);
                file
            }
        };
        let outcome = act(part, &file);
        part.file = Some(file);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{crc32, join_relative};

    fn meta(name: &str, size: usize) -> FileMeta {
        FileMeta { name: name.into(), size: size as u64, ..FileMeta::default() }
    }

    #[test]
    fn concatenates_in_order_and_pads_with_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = vec![meta("empty", 0), meta("sub/a", 3), meta("none", 0), meta("b", 2)];
        files.insert(2, FileMeta { on_prefix: true, ..meta("elsewhere", 100) });
        let mut out =
            LogicalFile::create(&files, None, |_, f| join_relative(dir.path(), &f.name)).unwrap();
        out.write_padded(4, &[5, 99, 99]).unwrap();
        out.write_padded(0, &[1, 2, 3, 4]).unwrap();
        out.sync().unwrap();
        let mut logical = LogicalFile::open(dir.path(), &files).unwrap();
        assert_eq!(logical.total(), 5);
        assert_eq!(logical.crcs()[1], None);
        let (mut all, mut past) = ([9; 7], [9; 2]);
        logical.read_padded(0, &mut all).unwrap();
        logical.read_padded(8, &mut past).unwrap();
        assert_eq!((all, past), ([1, 2, 3, 4, 5, 0, 0], [0, 0]));
        let expected = [Some(0), Some(crc32(&[1, 2, 3])), None, Some(0), Some(crc32(&[4, 5]))];
        assert_eq!(logical.crcs(), expected);
        assert_eq!(out.crcs(), expected);
    }

    #[test]
    fn more_files_than_may_be_open() {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<_> = (0..OPEN_FILES_MAX * 3).map(|i| meta(&format!("f{i}"), 2)).collect();
        let bytes: Vec<u8> = (0..files.len() as u8 * 2).collect();
        let mut out =
            LogicalFile::create(&files, None, |_, f| Ok(dir.path().join(&f.name))).unwrap();
        out.write_padded(0, &bytes).unwrap();
        assert!(out.parts.iter().filter(|part| part.file.is_some()).count() <= OPEN_FILES_MAX);
        let mut back = vec![0; bytes.len()];
        let mut logical = LogicalFile::open(dir.path(), &files).unwrap();
        for offset in (0..back.len()).rev() {
            logical.read_padded(offset as u64, &mut back[offset..=offset]).unwrap();
        }
        assert_eq!(back, bytes);
    }

    #[test]
    fn a_file_of_another_size_or_outside_the_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), [0; 4]).unwrap();
        assert!(LogicalFile::open(dir.path(), &[meta("a", 4)]).is_ok());
        for bad in [meta("a", 3), meta("a", 5), meta("missing", 0), meta("../a", 4)] {
            assert!(LogicalFile::open(dir.path(), &[bad]).is_err());
        }
        let huge = [meta("a", 4), FileMeta { size: u64::MAX, ..meta("b", 0) }];
        assert!(LogicalFile::open(dir.path(), &huge).is_err());
    }
}
