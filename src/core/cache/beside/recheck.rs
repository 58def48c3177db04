//! What a start has offered is compared while the program runs, in small steps that nobody waits
//! for. Right files are remembered (`untouched.rs`), so that the next start need not read them; if
//! one is damaged, it still compares all of them.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::cache::node::disk::CHUNK_BYTES;
use crate::cache::node::untouched::{self, KnownFiles};
use crate::cache::sealing::own_part::protection_of;
use crate::cache::{Ctx, FilemapFile};
use crate::error::Result;
use crate::files::Crc32;
use crate::records::{DatasetRecord, FileContent, FileMeta};

/// What is left of one rank's work.
pub struct Recheck {
    parts: VecDeque<Uncompared>,
    buffer: Vec<u8>,
}

struct Uncompared {
    record: DatasetRecord,
    dir: PathBuf,
    waiting: VecDeque<FileMeta>,
    reading: Option<Reading>,
    known: KnownFiles,
    is_right: bool,
}

struct Reading {
    file: File,
    content: FileContent,
    meta: FileMeta,
    /// As it was before the first byte was read.
    identity: String,
    inode: u64,
    bytes: u64,
    crc32: Crc32,
}

#[derive(Debug)]
pub struct Damaged {
    pub record: DatasetRecord,
    pub path: PathBuf,
}

impl Recheck {
    /// Collects what the start has offered of this rank.
    pub fn of(ctx: &Ctx) -> Self {
        let unread = |record: &DatasetRecord| {
            // Where other nodes reach it, this node cannot tell who has touched it.
            untouched::is_offered(record) && !ctx.sharing.is_shared(ctx.store_index(record))
        };
        let records = ctx.filemap.records().into_iter().filter(unread);
        let parts: VecDeque<Uncompared> =
            records.map(|record| Uncompared::new(ctx, record)).collect();
        let buffer = if parts.is_empty() { Vec::new() } else { vec![0; CHUNK_BYTES] };
        Recheck { parts, buffer }
    }

    /// Tells whether nothing is left to be done.
    pub fn is_over(&self) -> bool {
        self.parts.is_empty()
    }

    /// Reads up to 1 MiB; returns a file that has turned out to be damaged.
    pub fn step(&mut self, filemap: &FilemapFile) -> Result<Option<Damaged>> {
        let Some(part) = self.parts.front_mut() else { return Ok(None) };
        let found = part.step(&mut self.buffer, filemap);
        if part.is_over() {
            let part = self.parts.pop_front();
            part.map_or(Ok(()), |part| part.record_known(filemap))?;
        }
        Ok(found)
    }
}

impl Uncompared {
    fn new(ctx: &Ctx, record: DatasetRecord) -> Uncompared {
        let dir = ctx.layout.data_dir(&record);
        let own = record.files.iter().filter(|file| untouched::is_large(file)).cloned();
        let redundancy = protection_of(&record).into_iter().filter(untouched::is_large);
        let mut known = KnownFiles::default();
        let mut waiting: VecDeque<FileMeta> = own.collect();
        for file in redundancy {
            match untouched::identity(&dir.join(file.place())) {
                // It is compared before it serves.
                Some(identity) if untouched::is_untouched(&record, &dir, &file) => {
                    known.insert(&file, identity);
                }
                _ => waiting.push_back(file),
            }
        }
        Uncompared { record, dir, waiting, reading: None, known, is_right: true }
    }

    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.reading.is_none()
    }

    fn step(&mut self, buffer: &mut [u8], filemap: &FilemapFile) -> Option<Damaged> {
        let reading = self.reading.take().or_else(|| self.open_next())?;
        match reading.go_on(buffer) {
            ReadStep::More(reading) => {
                self.reading = Some(reading);
                None
            }
            ReadStep::End(reading) => self.compare(reading, filemap),
            ReadStep::Failed => {
                self.is_right = false;
                None
            }
        }
    }

    fn open_next(&mut self) -> Option<Reading> {
        let meta = self.waiting.pop_front()?;
        let identity = untouched::identity(&self.dir.join(meta.place()));
        let content = FileContent::of(&self.dir, &meta);
        let opened = content.and_then(|content| Ok((content.open()?, content)));
        let inode = opened.as_ref().ok().and_then(|(file, _)| file.metadata().ok());
        let (Some(identity), Some(inode), Ok((file, content))) = (identity, inode, opened) else {
            // The dataset has been evicted, or the next start will find what is wrong.
            self.is_right = false;
            return None;
        };
        let (inode, crc32) = (inode.ino(), Crc32::new());
        Some(Reading { file, content, meta, identity, inode, bytes: 0, crc32 })
    }

    fn compare(&mut self, reading: Reading, filemap: &FilemapFile) -> Option<Damaged> {
        let path = self.dir.join(reading.meta.place());
        let is_right = reading.bytes == reading.meta.size
            && reading.meta.crc32.is_none_or(|crc32| crc32 == reading.crc32.value());
        if is_right {
            if untouched::identity(&path).as_ref() == Some(&reading.identity) {
                self.known.insert(&reading.meta, reading.identity);
            }
            return None;
        }
        self.is_right = false;
        // What was evicted meanwhile may have become another file, and what the program amends has
        // another record by now.
        let is_there =
            std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.ino() == reading.inode);
        let counts = is_there && filemap.is_sealed(&self.record);
        counts.then(|| Damaged { record: self.record.clone(), path })
    }

    fn record_known(self, filemap: &FilemapFile) -> Result<()> {
        if !self.is_right {
            return Ok(());
        }
        filemap.amend(&self.record, |record| self.known.note(&mut record.descriptor))
    }
}

enum ReadStep {
    More(Reading),
    End(Reading),
    Failed,
}

impl Reading {
    fn go_on(mut self, buffer: &mut [u8]) -> ReadStep {
        let count = (self.meta.size - self.bytes).min(buffer.len() as u64) as usize;
        if count == 0 {
            return ReadStep::End(self);
        }
        let buffer = &mut buffer[..count];
        match self.content.read_exact_at(&self.file, buffer, self.bytes) {
            Ok(()) => {
                self.crc32.update(buffer);
                self.bytes += count as u64;
                ReadStep::More(self)
            }
            Err(_) => ReadStep::Failed,
        }
    }
}
