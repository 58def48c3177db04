//! An XOR file while it is written, and as a survivor finds it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::super::layout::DIRECTORY_MODE;
use super::super::ring::Ring;
use super::super::{Protection, Survivor, XorHeader};
use crate::error::{Error, Result};
use crate::files::{Crc32, create_dirs, join_relative, sync_dir};
use crate::records::FileMeta;

/// The XOR file of this member on its way, under a temporary name.
pub(super) struct ParityWriter {
    name: String,
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    header_bytes: u64,
    written: u64,
    chunk_crc: Crc32,
}

impl ParityWriter {
    /// Creates the file with a gap for the header.
    pub fn create(dir: &Path, name: String, header: &XorHeader) -> Result<Self> {
        let path = join_relative(dir, &name)?;
        let temporary = join_relative(dir, &format!("{name}.tmp"))?;
        if let Some(parent) = path.parent() {
            create_dirs(parent, DIRECTORY_MODE)?;
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(|error| Error::io("cannot create", &temporary, error))?;
        let header_bytes = header.to_bytes()?.len() as u64;
        let chunk_crc = Crc32::new();
        Ok(ParityWriter { name, path, temporary, file, header_bytes, written: 0, chunk_crc })
    }

    /// Appends a piece of the chunk.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, self.header_bytes + self.written)
            .map_err(|error| Error::io("cannot write", &self.temporary, error))?;
        self.chunk_crc.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Writes the header, with all checksums in it, and makes the file durable. Gives its record.
    pub fn finish(&mut self, header: &XorHeader) -> Result<FileMeta> {
        let bytes = header.to_bytes()?;
        debug_assert_eq!(bytes.len() as u64, self.header_bytes);
        debug_assert_eq!(self.written, header.chunk_bytes);
        self.file
            .write_all_at(&bytes, 0)
            .and_then(|()| self.file.sync_all())
            .map_err(|error| Error::io("cannot write", &self.temporary, error))?;
        let mut crc32 = Crc32::new();
        crc32.update(&bytes);
        crc32.combine(&self.chunk_crc);
        Ok(FileMeta {
            name: self.name.clone(),
            size: self.header_bytes + self.written,
            crc32: Some(crc32.value()),
            mode: 0o600,
            ..FileMeta::default()
        })
    }

    /// Gives the file its name, durably.
    pub fn publish(self) -> Result<()> {
        fs::rename(&self.temporary, &self.path)
            .map_err(|error| Error::io("cannot create", &self.path, error))?;
        self.path.parent().map_or(Ok(()), sync_dir)
    }
}

/// A survivor's XOR file that fits its set, its seal and its files.
pub(super) struct Parity {
    pub header: XorHeader,
    path: PathBuf,
    header_bytes: u64,
}

impl Parity {
    /// Looks at what the survivor has; `None` counts as lost.
    pub fn find(ring: &Ring, own: &Survivor) -> Option<Self> {
        let name = XorHeader::file_name(ring.set);
        let known = |protection: &Protection| protection.files.iter().any(|f| f.name == name);
        own.protection.as_ref().filter(|protection| known(protection))?;
        let path = join_relative(&own.dir, &name).ok()?;
        let (header, header_bytes) = XorHeader::read(&path).ok()?;
        let fits = header.id == own.id
            && header.epoch == own.epoch
            && header.group == ring.set.world_ranks
            && own.valid_data().is_none_or(|data| header.current.fits(&data.files));
        fits.then_some(Parity { header, path, header_bytes })
    }

    /// Opens the chunk for reading.
    pub fn open(&self) -> Result<ChunkReader> {
        let file =
            File::open(&self.path).map_err(|error| Error::io("cannot open", &self.path, error))?;
        Ok(ChunkReader { file, path: self.path.clone(), start: self.header_bytes })
    }
}

/// The chunk of a survivor's XOR file.
pub(super) struct ChunkReader {
    file: File,
    path: PathBuf,
    start: u64,
}

impl ChunkReader {
    /// Fills `buffer` from `offset` of the chunk on.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(buffer, self.start + offset)
            .map_err(|error| Error::io("cannot read", &self.path, error))
    }
}
