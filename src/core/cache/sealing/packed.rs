//! Lists of files in few bytes: an entry tells what differs from the one before it, so that a
//! rank's file costs about as much as its checksum and what is new in its name.
//!
//! ```text
//! flags  u8: 1 has a checksum, 2 lies on the PFS, 4 has extended attributes, 8 is a part,
//!        16 several ranks have written it, 32 the share of the part is not known
//! name   number of bytes as before, number of other bytes, those
//! rank, size, mode, seconds    differences, zigzag         nanoseconds    zigzag
//! checksum u32, little-endian     attributes: count, then name and value of each
//! of a part: name of the whole file, its size, the share u32 if it is known; where it lies is not
//! told
//! ```
//! Numbers are variable-length, seven bits a byte.

use std::collections::BTreeMap;

use crate::bytes::{Reader, Writer};
use crate::files::is_safe_relative;
use crate::records::{FileMeta, FilePart};

/// A file of a dataset, and the world rank that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// World rank that wrote it.
    pub rank: usize,
    /// Path, size, checksum, times.
    pub meta: FileMeta,
}

#[derive(Default)]
pub(super) struct Packer {
    out: Writer,
    name: Vec<u8>,
    numbers: [u64; 4],
}

impl Packer {
    pub fn put(&mut self, rank: usize, meta: &FileMeta) {
        let has_attributes = !meta.attributes.is_empty();
        self.out.flags(&[
            meta.crc32.is_some(),
            meta.on_prefix,
            has_attributes,
            meta.part.is_some(),
            meta.is_shared,
            meta.part.as_ref().is_some_and(|part| part.share.is_none()),
        ]);
        let name = meta.name.as_bytes();
        let same = self.name.iter().zip(name).take_while(|(before, now)| before == now).count();
        self.out.packed(same as u64).packed_counted(&name[same..]);
        self.name.truncate(same);
        self.name.extend(&name[same..]);
        let numbers = [rank as u64, meta.size, meta.mode.into(), meta.mtime_seconds as u64];
        for (now, before) in numbers.into_iter().zip(self.numbers) {
            self.out.packed(zigzag(now.wrapping_sub(before) as i64));
        }
        self.numbers = numbers;
        self.out.packed(zigzag(meta.mtime_nanoseconds));
        if let Some(crc32) = meta.crc32 {
            self.out.raw(&crc32.to_le_bytes());
        }
        if has_attributes {
            self.out.packed(meta.attributes.len() as u64);
        }
        for (name, value) in &meta.attributes {
            self.out.packed_counted(name.as_bytes()).packed_counted(value);
        }
        if let Some(part) = &meta.part {
            self.out.packed_counted(part.of.as_bytes()).packed(part.whole);
            part.share.iter().for_each(|share| _ = self.out.raw(&share.to_le_bytes()));
        }
    }

    /// Begins a list with the next entry, and returns the byte at which it begins.
    pub fn begin(&mut self) -> usize {
        self.name.clear();
        self.numbers = [0; 4];
        self.out.len()
    }

    pub fn bytes(mut self) -> Vec<u8> {
        self.out.take()
    }
}

pub(super) struct Unpacker<'a> {
    from: Reader<'a>,
    name: Vec<u8>,
    numbers: [u64; 4],
    nanoseconds: i64,
    crc32: Option<u32>,
    on_prefix: bool,
    is_shared: bool,
    attributes: BTreeMap<&'a [u8], &'a [u8]>,
    /// Whole file, its size and the share, of a part.
    part: Option<(&'a [u8], u64, Option<u32>)>,
}

impl<'a> Unpacker<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Unpacker {
            from: Reader::new(bytes),
            name: Vec::new(),
            numbers: [0; 4],
            nanoseconds: 0,
            crc32: None,
            on_prefix: false,
            is_shared: false,
            attributes: BTreeMap::new(),
            part: None,
        }
    }

    /// Goes to the next entry; `None` if there is none, or it is malformed, and bytes are left.
    pub fn step(&mut self) -> Option<()> {
        let mut from = self.from;
        let [has_crc32, on_prefix, has_attributes, is_part, is_shared, no_share] = from.flags()?;
        let same = usize::try_from(from.packed()?).ok()?;
        self.name.truncate(match same <= self.name.len() {
            true => same,
            false => return None,
        });
        self.name.extend(from.packed_counted()?);
        for value in &mut self.numbers {
            *value = value.wrapping_add(unzigzag(from.packed()?) as u64);
        }
        self.nanoseconds = unzigzag(from.packed()?);
        self.crc32 = sum_if(has_crc32, &mut from)?;
        (self.on_prefix, self.is_shared) = (on_prefix, is_shared);
        self.attributes.clear();
        for _ in 0..if has_attributes { from.packed()? } else { 0 } {
            self.attributes.insert(from.packed_counted()?, from.packed_counted()?);
        }
        self.part = match is_part {
            true => Some((from.packed_counted()?, from.packed()?, sum_if(!no_share, &mut from)?)),
            false => None,
        };
        self.from = from;
        Some(())
    }

    pub fn is_done(&self) -> bool {
        self.from.is_done()
    }

    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns `None` if the entry is malformed.
    pub fn entry(&self) -> Option<CatalogEntry> {
        let [rank, size, mode, seconds] = self.numbers;
        let text = |bytes: &[u8]| Some(std::str::from_utf8(bytes).ok()?.to_string());
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| Some((text(name)?, value.to_vec())));
        let part = match self.part {
            None => None,
            Some((of, whole, share)) => {
                let of = text(of).filter(|of| is_safe_relative(of))?;
                Some(FilePart { of, whole, share, ..FilePart::default() }.into())
            }
        };
        let meta = FileMeta {
            name: text(&self.name)?,
            size,
            crc32: self.crc32,
            mode: u32::try_from(mode).ok()?,
            mtime_seconds: seconds as i64,
            mtime_nanoseconds: self.nanoseconds,
            on_prefix: self.on_prefix,
            is_shared: self.is_shared,
            attributes: attributes.collect::<Option<_>>()?,
            part,
        };
        Some(CatalogEntry { rank: usize::try_from(rank).ok()?, meta })
    }
}

/// Reads a checksum, if there is one; `None` if it is cut off.
fn sum_if(is_there: bool, from: &mut Reader) -> Option<Option<u32>> {
    Some(if is_there { Some(u32::from_le_bytes(from.array()?)) } else { None })
}

pub(super) fn pack(rank: usize, files: &[FileMeta]) -> Vec<u8> {
    let mut packer = Packer::default();
    files.iter().for_each(|meta| packer.put(rank, meta));
    packer.bytes()
}

/// Reads a list that another rank has sent; `None` if an entry is malformed, or has a name that
/// could lie outside the dataset's directory, since names are joined to paths.
pub(super) fn unpack(bytes: &[u8]) -> Option<Vec<CatalogEntry>> {
    let mut unpacker = Unpacker::new(bytes);
    let mut entries = Vec::new();
    while unpacker.step().is_some() {
        entries.push(unpacker.entry().filter(|entry| is_safe_relative(&entry.meta.name))?);
    }
    unpacker.is_done().then_some(entries)
}

pub(super) fn join_lists(lists: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Writer::new();
    lists.iter().for_each(|list| _ = out.packed_counted(list));
    out.take()
}

pub(super) fn split_lists(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut from = Reader::new(bytes);
    let mut lists = Vec::new();
    while !from.is_done() {
        lists.push(from.packed_counted()?);
    }
    Some(lists)
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crc32;

    fn files() -> Vec<FileMeta> {
        let plain = |name: &str| FileMeta { name: name.into(), ..FileMeta::default() };
        let odd = FileMeta {
            size: u64::MAX,
            crc32: Some(0xffff_fffe),
            mode: u32::MAX,
            mtime_seconds: i64::MIN,
            mtime_nanoseconds: 999_999_999,
            on_prefix: true,
            attributes: [("user.a".to_string(), vec![0, 255]), ("user.b".to_string(), vec![])]
                .into(),
            ..plain("step 6/\u{e4}")
        };
        // Two names whose first different byte is the second one of a letter.
        vec![plain("step 6/a"), odd, plain("step 6/\u{e5}"), plain("z"), plain("step 6/a")]
    }

    #[test]
    fn every_field_survives() {
        let entries = unpack(&pack(70_000, &files())).unwrap();
        assert!(entries.iter().all(|entry| entry.rank == 70_000));
        assert_eq!(entries.into_iter().map(|entry| entry.meta).collect::<Vec<_>>(), files());
        assert_eq!(unpack(&[]), Some(vec![]));
        let lists = [pack(1, &files()), vec![], vec![7; 300]];
        let joined = join_lists(&lists);
        assert_eq!(crc32(&joined), 0x7418_660a, "the form is as it was");
        assert_eq!(split_lists(&joined).unwrap(), lists);
        assert_eq!(split_lists(&joined[..joined.len() - 1]), None);
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let whole = pack(3, &files());
        let mut cut: Vec<usize> = Vec::new();
        for length in 0..whole.len() {
            cut.extend(unpack(&whole[..length]).map(|entries| entries.len()));
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[length] ^= 1 << bit;
                let _ = unpack(&bytes);
            }
        }
        assert_eq!(cut, [0, 1, 2, 3, 4]); // only where an entry ends
        let outside = FileMeta { name: "../a".into(), ..FileMeta::default() };
        assert_eq!(unpack(&pack(0, &[outside])), None);
    }

    #[test]
    fn a_rank_s_file_costs_little_more_than_its_checksum() {
        let mut packer = Packer::default();
        for rank in 0..1000 {
            let meta = FileMeta {
                name: format!("ckpt/step_600/rank_{rank:06}.dat"),
                size: 1 << 30,
                crc32: Some(0x9e37_79b9_u32.wrapping_mul(rank)),
                mode: 0o640,
                mtime_seconds: 1_700_000_000,
                mtime_nanoseconds: 123_456_789,
                ..FileMeta::default()
            };
            packer.put(rank as usize, &meta);
        }
        let bytes = packer.bytes().len();
        assert!(bytes < 24_000, "{bytes} for 1000 files");
    }
}
