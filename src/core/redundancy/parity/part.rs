//! A member's parity file: writing it, and what a survivor has of it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::slice;

use super::code::Code;
use super::header::ParityHeader;
use super::shape::Shape;
use crate::error::{Error, Result};
use crate::files::{Crc32, create_dirs, join_relative, replace, sync_dir};
use crate::records::FileMeta;
use crate::redundancy::folder::DIRECTORY_MODE;
use crate::redundancy::ring::Ring;
use crate::redundancy::running_crc::RunningCrc;
use crate::redundancy::verify::compare_crcs;
use crate::redundancy::{Spares, Survivor};
use crate::system::begin_writeback;

/// The parity file of this member on its way, under a temporary name.
pub struct ParityWriter {
    name: String,
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    header_bytes: u64,
    chunks_bytes: u64,
    chunks_crc: RunningCrc,
}

impl ParityWriter {
    pub fn create(dir: &Path, name: String, header: &ParityHeader) -> Result<Self> {
        let path = join_relative(dir, &name)?;
        let temporary = join_relative(dir, &format!("{name}.tmp"))?;
        if let Some(parent) = path.parent() {
            create_dirs(parent, DIRECTORY_MODE)?;
        }
        let header_bytes = header.to_bytes()?.len() as u64;
        let chunks_bytes = header.chunks_bytes();
        let spares = Spares::beside(dir, header.current.world_rank);
        let file = spares.create(&temporary, header_bytes.saturating_add(chunks_bytes))?;
        let chunks_crc = RunningCrc::default();
        Ok(ParityWriter { name, path, temporary, file, header_bytes, chunks_bytes, chunks_crc })
    }

    /// Writes a piece of the chunks, which lie one behind another; each byte once.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, self.header_bytes + offset)
            .map_err(|error| Error::io("cannot write", &self.temporary, error))?;
        self.chunks_crc.update(offset, bytes);
        begin_writeback(&self.file, self.header_bytes + offset, bytes.len() as u64);
        Ok(())
    }

    /// Writes the header, with all checksums in it, and makes the file durable. Gives its record.
    pub fn finish(&mut self, header: &ParityHeader) -> Result<FileMeta> {
        let bytes = header.to_bytes()?;
        debug_assert_eq!(bytes.len() as u64, self.header_bytes);
        let chunks_crc = self.chunks_crc.whole(self.chunks_bytes).ok_or_else(|| {
            Error::Defect(format!("{} was not written completely", self.temporary.display()))
        })?;
        self.file
            .write_all_at(&bytes, 0)
            .and_then(|()| self.file.sync_all())
            .map_err(|error| Error::io("cannot write", &self.temporary, error))?;
        let mut crc32 = Crc32::new();
        crc32.update(&bytes);
        crc32.combine(&chunks_crc);
        Ok(FileMeta {
            name: self.name.clone(),
            size: self.header_bytes + self.chunks_bytes,
            crc32: Some(crc32.value()),
            mode: 0o600,
            ..FileMeta::default()
        })
    }

    /// Gives the file its name; durable with the next sync of its directory.
    pub fn publish(self) -> Result<()> {
        replace(&self.temporary, &self.path)
            .map_err(|error| Error::io("cannot create", &self.path, error))
    }

    /// Does what [`ParityWriter::publish`] does, durably.
    pub fn publish_durably(self) -> Result<()> {
        let path = self.path.clone();
        self.publish()?;
        path.parent().map_or(Ok(()), sync_dir)
    }
}

/// A survivor's parity file that fits its set, its seal and its files.
pub struct Parity {
    pub header: ParityHeader,
    path: PathBuf,
    header_bytes: u64,
    recorded: FileMeta,
}

impl Parity {
    pub fn find(ring: &Ring, code: Code, shape: Shape, own: &Survivor) -> Option<Self> {
        let name = ParityHeader::file_name(code, ring.set);
        let recorded = own.protection.as_ref()?.files.iter().find(|file| file.name == name)?;
        let path = join_relative(&own.dir, &name).ok()?;
        let (header, header_bytes) = ParityHeader::read(&path).ok()?;
        let fits = header.id == own.id
            && header.code == code
            && header.failures == shape.parities
            && header.epoch == own.epoch
            && header.group == ring.set.world_ranks
            && own.valid_data().is_none_or(|data| header.current.fits(&data.files));
        fits.then(|| Parity { header, path, header_bytes, recorded: recorded.clone() })
    }

    pub fn open(&self) -> Result<ChunkReader> {
        let file =
            File::open(&self.path).map_err(|error| Error::io("cannot open", &self.path, error))?;
        let (path, start) = (self.path.clone(), self.header_bytes);
        let (recorded, crc32) = (self.recorded.clone(), RunningCrc::default());
        Ok(ChunkReader { file, path, start, recorded, crc32 })
    }
}

pub struct ChunkReader {
    file: File,
    path: PathBuf,
    start: u64,
    recorded: FileMeta,
    /// Of the whole file, as far as it has passed.
    crc32: RunningCrc,
}

impl ChunkReader {
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let at = self.start + offset;
        self.file
            .read_exact_at(buffer, at)
            .map_err(|error| Error::io("cannot read", &self.path, error))?;
        self.crc32.update(at, buffer);
        Ok(())
    }

    /// Compares the file, which lies below `dir`, with its recorded checksum.
    pub fn compare(&mut self, dir: &Path) -> Result<()> {
        let (file, path, size) = (&self.file, &self.path, self.recorded.size);
        self.crc32.complete(size, |at, into| {
            file.read_exact_at(into, at).map_err(|error| Error::io("cannot read", path, error))
        })?;
        compare_crcs(dir, slice::from_ref(&self.recorded), &[self.crc32.value(size)])
    }
}
