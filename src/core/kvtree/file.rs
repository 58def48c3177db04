//! File form (manual 1.1, section 3.4.2). All integers are big-endian, the magic number included.
//!
//! ```text
//!  0      4      6      8              16      20            size-4   size
//!  | magic | type | vers | file size u64 | flags | packed tree | CRC32 |
//! ```
//!
//! The file size counts every byte from the magic number to the checksum. The checksum (IEEE, as in
//! zlib) covers all bytes before it; it is there if flag 0x1 is set, and we always write it.

use std::io::{self, Read};
use std::path::Path;

use super::KvTree;
use super::decode::DEPTH_MAX;
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result, again};
use crate::files;

/// First four bytes of every file of this family.
pub const MAGIC: u32 = 0x951f_c3f5;
const TYPE_TREE: u16 = 1;
const VERSION: u16 = 1;
/// A CRC32 follows the data.
const FLAG_CRC32: u32 = 0x1;

/// Magic number, type, version, size, flags.
pub const HEADER_BYTES: usize = 4 + 2 + 2 + 8 + 4;
const CRC_BYTES: usize = size_of::<u32>();

/// Largest tree file that is read; a larger size in a header is taken for damage. A record of a
/// million files has about 150 MB.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Returns the file form with its checksum; a tree that is nested deeper than any reader accepts is
/// a defect of the caller.
pub fn to_file_bytes(tree: &KvTree) -> Result<Vec<u8>> {
    if tree.depth() > DEPTH_MAX {
        return Err(Error::Refused(format!(
            "a tree nested deeper than {DEPTH_MAX} cannot be stored"
        )));
    }
    let size = HEADER_BYTES + tree.packed_len() + CRC_BYTES;
    let mut header = Writer::new();
    header.word32(MAGIC).word16(TYPE_TREE).word16(VERSION);
    let mut bytes = header.word(size as u64).word32(FLAG_CRC32).take();
    bytes.reserve_exact(size - HEADER_BYTES);
    tree.encode_into(&mut bytes);
    let crc32 = files::crc32(&bytes);
    bytes.extend_from_slice(&crc32.to_be_bytes());
    debug_assert_eq!(bytes.len(), size);
    Ok(bytes)
}

/// Reads a file form that fills `bytes` exactly. The error is a sentence without the file's name.
pub fn from_file_bytes(bytes: &[u8]) -> std::result::Result<KvTree, String> {
    let header = Header::parse(bytes)?;
    if header.size != bytes.len() as u64 {
        return Err(format!("its header says {} bytes, it has {}", header.size, bytes.len()));
    }
    header.tree(bytes)
}

struct Header {
    size: u64,
    has_crc32: bool,
}

impl Header {
    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let mut from = Reader::new(bytes);
        let mut next = || {
            let kind = (from.word32()?, from.word16()?, from.word16()?);
            Some((kind, from.word()?, from.word32()?))
        };
        let Some(((magic, kind, version), size, flags)) = next() else {
            return Err(format!("{} bytes are too few for a header", bytes.len()));
        };
        if magic != MAGIC {
            return Err(format!("its magic number is {magic:#010x}, not {MAGIC:#010x}"));
        }
        if (kind, version) != (TYPE_TREE, VERSION) {
            return Err(format!(
                "it has type {kind} version {version}; known is type {TYPE_TREE} version {VERSION}"
            ));
        }
        let has_crc32 = flags & FLAG_CRC32 != 0;
        let least = HEADER_BYTES + size_of::<u32>() + if has_crc32 { CRC_BYTES } else { 0 };
        if !(least as u64..=FILE_BYTES_MAX).contains(&size) {
            return Err(format!("its header says {size} bytes, which no such file has"));
        }
        Ok(Header { size, has_crc32 })
    }

    /// Checks and reads what follows the header; `bytes` is the whole file form.
    fn tree(&self, bytes: &[u8]) -> std::result::Result<KvTree, String> {
        let mut data = &bytes[HEADER_BYTES..];
        if self.has_crc32 {
            let Some((covered, stored)) = bytes.split_last_chunk::<CRC_BYTES>() else {
                return Err("its checksum is cut off".into());
            };
            let (stored, computed) = (u32::from_be_bytes(*stored), files::crc32(covered));
            if stored != computed {
                return Err(format!("its checksum is {stored:#x}, its content has {computed:#x}"));
            }
            data = covered.get(HEADER_BYTES..).unwrap_or_default();
        }
        KvTree::decode(data).map_err(|malformed| {
            format!("{} at byte {}", malformed.what, HEADER_BYTES + malformed.offset)
        })
    }
}

/// Something else in the place of a file is damage: a second try would find the same.
fn unread(what: &'static str, path: &Path, error: io::Error) -> Error {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::IsADirectory, _) => Error::corrupt(path, "it is a directory"),
        (_, Some(libc::ELOOP)) => Error::corrupt(path, "it is a link"),
        (io::ErrorKind::InvalidInput, _) => Error::corrupt(path, error.to_string()),
        _ => Error::io(what, path, error),
    }
}

impl KvTree {
    /// Returns `None` if there is no file. One that cannot be read is read once more: the error
    /// may be passing, and what a record is about would be taken for lost. Other content than that
    /// of a tree file is [`Error::Corrupt`].
    pub fn read_file(path: impl AsRef<Path>) -> Result<Option<KvTree>> {
        let path = path.as_ref();
        again(|| KvTree::read_once(path))
    }

    fn read_once(path: &Path) -> Result<Option<KvTree>> {
        let mut file = match files::read_ours(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unread("cannot open", path, error)),
        };
        let read = |error| Error::io("cannot read", path, error);
        let length = file.metadata().map_err(read)?.len();
        let (tree, used) = KvTree::read_prefix(&mut file, path)?;
        if used != length {
            return Err(Error::corrupt(
                path,
                format!("its header says {used} bytes, it has {length}"),
            ));
        }
        Ok(Some(tree))
    }

    /// Reads the tree at the beginning of a stream that goes on after it, as redundancy files do,
    /// and returns its length, too. `path` is for messages.
    pub fn read_prefix(from: &mut impl Read, path: &Path) -> Result<(KvTree, u64)> {
        let read = |error| unread("cannot read", path, error);
        let corrupt = |what: String| Error::corrupt(path, what);
        let mut bytes = Vec::with_capacity(4096);
        from.take(HEADER_BYTES as u64).read_to_end(&mut bytes).map_err(read)?;
        let header = Header::parse(&bytes).map_err(corrupt)?;
        // Grows with what is really there, not with what the header claims.
        from.take(header.size - HEADER_BYTES as u64).read_to_end(&mut bytes).map_err(read)?;
        if bytes.len() as u64 != header.size {
            return Err(corrupt(format!(
                "its header says {} bytes, it has {}",
                header.size,
                bytes.len()
            )));
        }
        Ok((header.tree(&bytes).map_err(corrupt)?, header.size))
    }

    /// Writes the tree file `path` in place of an older one: atomic and durable
    /// ([`files::write_atomic`]). After an error the older file is still there, whole.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        files::write_atomic(path.as_ref(), &to_file_bytes(self)?)
    }

    /// Does what [`KvTree::write_file`] does, but a power cut may leave the older file until the
    /// directory is synced.
    pub fn replace_file(&self, path: impl AsRef<Path>) -> Result<()> {
        files::replace_atomic(path.as_ref(), &to_file_bytes(self)?)
    }
}
