//! What is known of one file of a dataset (manual 1.1, section 5; the sidecar files are gone).

use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use crate::files;
use crate::kvtree::KvTree;
use crate::records::FilePart;
use crate::records::text::{crc_text, hex_text, parse_crc, parse_hex};
use crate::system::{self, Attributes};

/// What is known of one file (manual 1.1, section 5; the sidecars are gone, the fields stay).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileMeta {
    /// Path relative to the dataset directory, which is the path relative to the prefix.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// CRC32 (IEEE) of the content, when computed.
    pub crc32: Option<u32>,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, seconds since the epoch.
    pub mtime_seconds: i64,
    /// Its nanoseconds.
    pub mtime_nanoseconds: i64,
    /// The file lies on the PFS under its own name, not in the cache.
    pub on_prefix: bool,
    /// Extended attributes (`user.*`) that the program has given it.
    pub attributes: Attributes,
    /// Several nodes have written it; on the prefix it is one file.
    pub is_shared: bool,
    /// It is a part of a file that several nodes have written.
    pub part: Option<Box<FilePart>>,
}

impl FileMeta {
    /// Puts by what a later look tells whether a file is still the same, its size and time of
    /// modification, into a message.
    pub fn put_look(&self, tree: &mut KvTree) {
        tree.set_value("SIZE", self.size);
        tree.set_value("SECONDS", self.mtime_seconds);
        tree.set_value("NANOSECONDS", self.mtime_nanoseconds);
    }

    /// Reads it; `None` if it is not there.
    pub fn look_in(tree: &KvTree) -> Option<FileMeta> {
        let (size, mtime_seconds) = (tree.get_u64("SIZE")?, tree.get_i64("SECONDS")?);
        let mtime_nanoseconds = tree.get_i64("NANOSECONDS")?;
        Some(FileMeta { size, mtime_seconds, mtime_nanoseconds, ..FileMeta::default() })
    }

    /// Makes a tree of the keys FILE, SIZE, CRC, MODE, MTIME, MTIME_NSECS, PFS, SHARED, XATTR
    /// (values in hexadecimal).
    #[must_use]
    pub fn to_tree(&self) -> KvTree {
        let mut tree = self.to_fields();
        tree.set_value("FILE", &self.name);
        tree
    }

    /// Reads what [`FileMeta::to_tree`] makes; `None` if a field is missing or malformed.
    #[must_use]
    pub fn from_tree(tree: &KvTree) -> Option<Self> {
        Self::from_fields(tree.get_value("FILE")?, tree)
    }

    /// Makes a tree of all keys but FILE: the form in which lists are stored,
    /// `FILE/<name>/<fields>`.
    #[must_use]
    pub fn to_fields(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("SIZE", self.size);
        if let Some(crc32) = self.crc32 {
            tree.set_value("CRC", crc_text(crc32));
        }
        tree.set_value("MODE", format_args!("{:o}", self.mode));
        tree.set_value("MTIME", self.mtime_seconds);
        tree.set_value("MTIME_NSECS", self.mtime_nanoseconds);
        tree.set_flag("PFS", self.on_prefix);
        tree.set_flag("SHARED", self.is_shared);
        for (name, value) in &self.attributes {
            tree.child_mut("XATTR").set_value(name, hex_text(value));
        }
        if let Some(part) = &self.part {
            part.put(&mut tree);
        }
        tree
    }

    /// Reads what [`FileMeta::to_fields`] makes. SIZE must be there; of what older writers left
    /// out, mode (0600) and times (0) have defaults. A name that could lie outside the dataset's
    /// directory is refused: names are joined to paths.
    #[must_use]
    pub fn from_fields(name: &str, tree: &KvTree) -> Option<Self> {
        if !files::is_safe_relative(name) {
            return None;
        }
        let optional = |key: &str| match tree.get(key) {
            None => Some(0),
            Some(_) => tree.get_i64(key),
        };
        Some(FileMeta {
            name: name.to_owned(),
            size: tree.get_u64("SIZE")?,
            crc32: match tree.get("CRC") {
                None => None,
                Some(_) => Some(parse_crc(tree.get_value("CRC")?)?),
            },
            mode: match tree.get("MODE") {
                None => 0o600,
                Some(_) => u32::from_str_radix(tree.get_value("MODE")?, 8).ok()?,
            },
            mtime_seconds: optional("MTIME")?,
            mtime_nanoseconds: optional("MTIME_NSECS")?,
            on_prefix: tree.get_flag("PFS"),
            is_shared: tree.get_flag("SHARED"),
            attributes: attributes_from(tree.child("XATTR"))?,
            part: FilePart::take(tree)?.map(Box::new),
        })
    }

    /// Gives a file that was brought back its mode, times and attributes, and makes it durable. A
    /// time that the system cannot represent becomes the epoch.
    ///
    /// # Errors
    /// Of the system; attributes that the file system does not take are left out.
    pub fn give_to(&self, file: &File) -> std::io::Result<()> {
        system::set_user_attributes(file, &self.attributes);
        file.set_times(FileTimes::new().set_modified(self.modified()))?;
        file.set_permissions(Permissions::from_mode(self.mode & 0o7777))?;
        file.sync_all()
    }

    fn modified(&self) -> SystemTime {
        let seconds = Duration::from_secs(self.mtime_seconds.unsigned_abs());
        let whole = match self.mtime_seconds < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(seconds),
            false => SystemTime::UNIX_EPOCH.checked_add(seconds),
        };
        let nanoseconds = u64::try_from(self.mtime_nanoseconds).unwrap_or(0);
        whole
            .and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds)))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

fn attributes_from(tree: &KvTree) -> Option<Attributes> {
    tree.keys().map(|name| Some((name.to_string(), parse_hex(tree.get_value(name)?)?))).collect()
}

/// Lists files as `<name>/<fields>`, with an INDEX that keeps their order: the redundancy schemes
/// concatenate files in it.
#[must_use]
pub fn files_to_list(files: &[FileMeta]) -> KvTree {
    let mut list = KvTree::new();
    for (index, file) in files.iter().enumerate() {
        list.set(&file.name, file.to_fields()).set_value("INDEX", index);
    }
    list
}

/// Reads what [`files_to_list`] makes; without INDEX, in order of names. `None` if an entry is
/// malformed.
#[must_use]
pub fn files_from_list(list: &KvTree) -> Option<Vec<FileMeta>> {
    let mut indexed = Vec::with_capacity(list.len());
    for (position, (name, fields)) in list.iter().enumerate() {
        let index = match fields.get("INDEX") {
            None => position as u64,
            Some(_) => fields.get_u64("INDEX")?,
        };
        indexed.push((index, FileMeta::from_fields(name, fields)?));
    }
    indexed.sort_by_key(|(index, _)| *index);
    Some(indexed.into_iter().map(|(_, file)| file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives_the_tree() {
        let meta = FileMeta {
            name: "ckpt/step_6/rank_0.dat".into(),
            size: 524_294,
            crc32: Some(0x028e_eb9e),
            mode: 0o640,
            mtime_seconds: -5,
            mtime_nanoseconds: 999_999_999,
            on_prefix: true,
            is_shared: true,
            attributes: [("user.step", b"6 \0\xff".as_slice()), ("user.none", b"")]
                .map(|(name, value)| (name.to_string(), value.to_vec()))
                .into(),
            part: Some(FilePart { of: "ckpt/all".into(), ..FilePart::default() }.into()),
        };
        let tree = meta.to_tree();
        assert_eq!(tree.get_value("CRC"), Some("0x28eeb9e"));
        assert_eq!(FileMeta::from_tree(&tree), Some(meta));
    }

    #[test]
    fn malformed_fields_give_none() {
        for (key, value) in [("SIZE", "-1"), ("CRC", "xyz"), ("MODE", "9"), ("MTIME", "now")] {
            let mut tree = FileMeta { name: "a".into(), ..FileMeta::default() }.to_tree();
            tree.set_value(key, value);
            assert_eq!(FileMeta::from_tree(&tree), None, "{key}={value}");
        }
        let mut tree = FileMeta { name: "a".into(), ..FileMeta::default() }.to_tree();
        assert!(FileMeta::from_tree(&tree).is_some());
        tree.set_value("FILE", "../a");
        assert_eq!(FileMeta::from_tree(&tree), None);
        tree.set_value("FILE", "a");
        tree.remove("SIZE");
        assert_eq!(FileMeta::from_tree(&tree), None);
    }
}
