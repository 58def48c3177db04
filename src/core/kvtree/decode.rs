//! Reads the packed form (manual 1.1, section 3.4.1): any bytes give a tree or [`Malformed`]. A
//! count is believed only as far as the bytes that are left can hold that many elements, and
//! nesting is limited, so that neither memory nor the stack can be exhausted.

use std::fmt;

use super::KvTree;
use super::tree::Elements;
use crate::error::Error;

/// Deepest tree that is written or read; ours have at most 15 levels.
pub const DEPTH_MAX: usize = 64;

/// An empty key's NUL and the count of its empty hash.
const ELEMENT_BYTES_MIN: usize = 1 + size_of::<u32>();

/// Why bytes are not a packed tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    pub offset: usize,
    pub what: &'static str,
}

const NONE: [u8; 4] = [0; 4];

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Error::Unreadable(format!("not a packed tree: {malformed}"))
    }
}

impl KvTree {
    /// Reads a packed tree that fills `bytes` exactly.
    pub fn decode(bytes: &[u8]) -> Result<KvTree, Malformed> {
        let (tree, used) = KvTree::decode_prefix(bytes)?;
        if used != bytes.len() {
            return Err(Malformed { offset: used, what: "bytes after the end" });
        }
        Ok(tree)
    }

    /// Reads the packed tree at the beginning of `bytes`, and returns its length, too.
    pub fn decode_prefix(bytes: &[u8]) -> Result<(KvTree, usize), Malformed> {
        let mut reader = PackedReader { bytes, offset: 0 };
        let mut tree = KvTree::new();
        reader.hash(&mut tree, 0)?;
        Ok((tree, reader.offset))
    }
}

struct PackedReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> PackedReader<'a> {
    /// Merges a packed hash into `into`, as the documents' unpack does; so a key that comes twice
    /// keeps the elements of both.
    fn hash(&mut self, into: &mut KvTree, depth: usize) -> Result<(), Malformed> {
        let count = self.count()?;
        if count > 0 && depth == DEPTH_MAX {
            return Err(self.malformed("nested too deep"));
        }
        if count > 1 && into.is_empty() {
            into.elements = Elements::with_room(count);
        }
        for _ in 0..count {
            let key = self.key()?;
            if count == 1 && into.is_empty() && self.bytes[self.offset..].starts_with(&NONE) {
                self.offset += NONE.len();
                into.elements = Elements::Value(key.into());
                break;
            }
            self.hash(into.child_mut(key), depth + 1)?;
        }
        Ok(())
    }

    fn count(&mut self) -> Result<usize, Malformed> {
        let rest = &self.bytes[self.offset..];
        let Some(field) = rest.first_chunk::<4>() else {
            return Err(self.malformed("count cut off"));
        };
        let count = u32::from_be_bytes(*field) as usize;
        if count > (rest.len() - field.len()) / ELEMENT_BYTES_MIN {
            return Err(self.malformed("count exceeds the data"));
        }
        self.offset += field.len();
        Ok(count)
    }

    fn key(&mut self) -> Result<&'a str, Malformed> {
        let rest = &self.bytes[self.offset..];
        let Some(len) = rest.iter().position(|byte| *byte == 0) else {
            return Err(self.malformed("key without end"));
        };
        let Ok(key) = std::str::from_utf8(&rest[..len]) else {
            return Err(self.malformed("key is not UTF-8"));
        };
        self.offset += len + 1;
        Ok(key)
    }

    fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { offset: self.offset, what }
    }
}
