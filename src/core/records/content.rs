//! Where the bytes of a recorded file are read, one after the other: in the file itself, or at
//! their places in the file that the ranks of the node have written together.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{Crc32, join_relative, open_own};
use crate::parts::{Extent, Extents};
use crate::progress;
use crate::records::{FileMeta, FilePart};

/// Bytes read at a time.
const BUFFER_BYTES: u64 = 1 << 20;

/// The bytes of a recorded file.
#[derive(Debug)]
pub struct FileContent {
    path: PathBuf,
    size: u64,
    /// Where they lie in `path`, if others' lie between them.
    live: Option<Extents>,
}

impl FileContent {
    /// Finds the content of `file`, a file of the dataset directory `dir`.
    ///
    /// # Errors
    /// If its name could lie outside the directory.
    pub fn of(dir: &Path, file: &FileMeta) -> Result<Self> {
        let live = file.live().map(|part| part.extents.clone());
        Ok(FileContent { path: join_relative(dir, file.place())?, size: file.size, live })
    }

    /// Is a file that has all `size` bytes and no others, or is about to get them.
    #[must_use]
    pub fn dense(path: PathBuf, size: u64) -> Self {
        FileContent { path, size, live: None }
    }

    /// Returns the bytes that are recorded.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the file that has the bytes.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// If it is not there, or has not all bytes that are recorded.
    pub fn open(&self) -> Result<File> {
        let file = open_own(&self.path, OpenOptions::new().read(true))
            .map_err(|error| Error::io("cannot open", &self.path, error))?;
        let found = file.metadata().map_err(|error| Error::io("cannot read", &self.path, error))?;
        self.check_size(found.len())?;
        Ok(file)
    }

    /// Checks that the file has all bytes that are recorded.
    ///
    /// # Errors
    /// If it is not there, or has not.
    pub fn check(&self) -> Result<()> {
        let found = fs::metadata(&self.path)
            .map_err(|error| Error::io("cannot read", &self.path, error))?;
        self.check_size(found.len())
    }

    fn check_size(&self, found: u64) -> Result<()> {
        let what = || format!("{} bytes are recorded, it has {found}", self.size);
        self.fits(found).then_some(()).ok_or_else(|| Error::corrupt(&self.path, what()))
    }

    /// Tells whether a file of so many bytes has all that are recorded.
    #[must_use]
    pub fn fits(&self, found: u64) -> bool {
        match &self.live {
            Some(extents) => extents.end() <= found && extents.bytes() == self.size,
            None => found == self.size,
        }
    }

    /// Gives the pieces of the file in which `count` bytes from `at` on lie.
    pub fn pieces(&self, at: u64, count: u64) -> Vec<Extent> {
        match &self.live {
            Some(extents) => extents.pieces(at, count).collect(),
            None => vec![Extent::new(at, (at + count).min(self.size))],
        }
    }

    /// Fills `buffer` from `at` on from the opened `file`.
    ///
    /// # Errors
    /// Of the system; if the file has become shorter.
    pub fn read_exact_at(&self, file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let mut rest = buffer;
        for piece in self.pieces(at, rest.len() as u64) {
            let (now, later) = rest.split_at_mut(piece.len() as usize);
            file.read_exact_at(now, piece.begin)?;
            rest = later;
        }
        rest.is_empty().then_some(()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads all of it; `take` gets where in the whole file each piece lies, and its bytes.
    ///
    /// # Errors
    /// If it cannot be read; those of `take`.
    pub fn pass(&self, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let file = self.open()?;
        let mut buffer = vec![0; self.size.min(BUFFER_BYTES) as usize];
        let mut at = 0;
        while at < self.size {
            let count = (self.size - at).min(BUFFER_BYTES);
            for piece in self.pieces(at, count) {
                let bytes = &mut buffer[..piece.len() as usize];
                file.read_exact_at(bytes, piece.begin)
                    .map_err(|error| Error::io("cannot read", &self.path, error))?;
                progress::add_bytes(piece.len());
                take(piece.begin, bytes)?;
            }
            at += count;
        }
        Ok(())
    }

    /// Returns the checksum of the bytes.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn crc32(&self) -> Result<u32> {
        let mut crc32 = Crc32::new();
        self.pass(|_, bytes| {
            crc32.update(bytes);
            Ok(())
        })?;
        Ok(crc32.value())
    }
}

impl FileMeta {
    fn live(&self) -> Option<&FilePart> {
        self.part.as_deref().filter(|part| part.live)
    }

    /// Tells whether the bytes lie in the file that ranks of the node have written together.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live().is_some()
    }

    /// Returns the name of the file in the dataset's directory that has the bytes.
    #[must_use]
    pub fn place(&self) -> &str {
        self.live().map_or(&self.name, |part| &part.of)
    }

    /// Returns the name that the prefix knows: of a part, that of the whole file.
    #[must_use]
    pub fn whole_name(&self) -> &str {
        self.part.as_ref().map_or(&self.name, |part| &part.of)
    }

    /// Describes what the prefix gets; the checksum of a whole file is not known from one part.
    #[must_use]
    pub fn as_whole(&self) -> Self {
        let Some(part) = &self.part else { return self.clone() };
        let (name, size, crc32) = (part.of.clone(), part.whole, None);
        FileMeta { name, size, crc32, part: None, is_shared: true, ..self.clone() }
    }

    /// Describes a copy of the file: of a part, one that has its bytes and no others.
    #[must_use]
    pub fn as_copy(&self) -> Self {
        let mut copy = self.clone();
        copy.part.iter_mut().for_each(|part| part.live = false);
        copy
    }

    /// Gives the pieces of the whole file that `count` bytes of this one from `at` on are.
    #[must_use]
    pub fn places(&self, at: u64, count: u64) -> Vec<Extent> {
        match &self.part {
            Some(part) => part.extents.pieces(at, count).collect(),
            None => vec![Extent::new(at, at + count)],
        }
    }

    /// Returns the checksum that counts on the prefix: of a part, its share in that of the whole
    /// file.
    #[must_use]
    pub fn prefix_checksum(&self) -> Option<u32> {
        self.part.as_ref().map_or(self.crc32, |part| part.share)
    }

    /// Notes that checksum, if it was not known before.
    pub fn note_prefix_checksum(&mut self, found: Option<u32>) {
        let known = self.part.as_mut().map_or(&mut self.crc32, |part| &mut part.share);
        *known = known.or(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crc32;
    use crate::records::FilePart;

    #[test]
    fn a_part_has_the_same_bytes_where_they_were_written_and_as_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let whole: Vec<u8> = (0..100_u8).collect();
        fs::write(dir.path().join("all"), &whole).unwrap();
        for (rank, pieces) in [[(0, 10), (40, 45)], [(10, 40), (45, 100)]].iter().enumerate() {
            let extents: Extents =
                pieces.iter().map(|(begin, end)| Extent::new(*begin, *end)).collect();
            let of = |one: Extent| whole[one.begin as usize..one.end as usize].to_vec();
            let packed: Vec<u8> = extents.iter().flat_map(of).collect();
            let name = FilePart::file_name(rank, "all");
            fs::create_dir_all(dir.path().join(&name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(&name), &packed).unwrap();
            let of = "all".to_string();
            let part = FilePart { of, extents, whole: 100, share: None, live: true };
            let size = packed.len() as u64;
            let mut live = FileMeta { name, size, part: Some(part.into()), ..FileMeta::default() };
            let mut dense = live.clone();
            dense.part.as_mut().unwrap().live = false;
            for file in [&live, &dense] {
                let content = FileContent::of(dir.path(), file).unwrap();
                assert_eq!(content.crc32().unwrap(), crc32(&packed));
            }
            let content = FileContent::of(dir.path(), &live).unwrap();
            let mut some = vec![0; packed.len() - 3];
            content.read_exact_at(&content.open().unwrap(), &mut some, 3).unwrap();
            assert_eq!(some, packed[3..]);
            live.size += 1;
            assert!(FileContent::of(dir.path(), &live).unwrap().check().is_err());
        }
    }

    #[test]
    fn of_a_part_its_share_is_what_counts_on_the_prefix() {
        let mut file = FileMeta { crc32: Some(1), ..FileMeta::default() };
        file.note_prefix_checksum(Some(2));
        assert_eq!((file.crc32, file.prefix_checksum()), (Some(1), Some(1)));
        file.part = Some(FilePart::default().into());
        assert_eq!(file.prefix_checksum(), None);
        file.note_prefix_checksum(Some(2));
        assert_eq!((file.crc32, file.prefix_checksum()), (Some(1), Some(2)));
    }
}
