//! What a record says of a part.

use crate::files::is_safe_relative;
use crate::kvtree::KvTree;
use crate::parts::Extents;

/// The rights of a node's part that the program has not made itself. The whole file gets those of
/// the one that it has.
pub const PART_MODE: u32 = 0o600;

/// The part of a whole file that a rank answers for. The bytes of its extents lie one after the
/// other in a file of their own, or at their places in the file that the node's ranks write. Mode,
/// times and attributes of all parts are those of the whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePart {
    /// Name of the whole file, as in `FileMeta::name`.
    pub of: String,
    /// Which bytes of it; empty where only the sizes are told.
    pub extents: Extents,
    /// Size of the whole file, bytes.
    pub whole: u64,
    /// Its share in the CRC32 of the whole file, from when it has been read on its way to the
    /// prefix.
    pub share: Option<u32>,
    /// The bytes lie in the file `of` of this node, at their offsets.
    pub live: bool,
}

impl FilePart {
    /// Returns the name of a file that has the part of a rank and nothing else.
    #[must_use]
    pub fn file_name(rank: usize, of: &str) -> String {
        format!(".scr/part.{rank}/{of}")
    }

    /// Puts the keys OF, EXTENTS, WHOLE and LIVE into a file's record, and SHARE (hexadecimal) if
    /// it is known.
    pub fn put(&self, fields: &mut KvTree) {
        fields.set_value("OF", &self.of);
        fields.set_value("EXTENTS", self.extents.to_text());
        fields.set_value("WHOLE", self.whole);
        if let Some(share) = self.share {
            fields.set_value("SHARE", format_args!("{share:08x}"));
        }
        fields.set_flag("LIVE", self.live);
    }

    /// Reads what [`FilePart::put`] makes: `Some(None)` if the file is no part, `None` if it is
    /// damaged.
    #[must_use]
    pub fn take(fields: &KvTree) -> Option<Option<Self>> {
        let Some(of) = fields.get_value("OF") else { return Some(None) };
        let share = match fields.get_value("SHARE") {
            Some(share) => Some(u32::from_str_radix(share, 16).ok()?),
            None => None,
        };
        let part = FilePart {
            of: is_safe_relative(of).then(|| of.to_owned())?,
            extents: Extents::from_text(fields.get_value("EXTENTS")?)?,
            whole: fields.get_u64("WHOLE")?,
            share,
            live: fields.get_flag("LIVE"),
        };
        (part.extents.end() <= part.whole).then_some(Some(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Extent;

    #[test]
    fn every_field_survives_the_record_and_damage_is_seen() {
        let extents: Extents = [Extent::new(3, 9), Extent::new(20, 30)].into_iter().collect();
        let of = "ck/5/all".to_string();
        let part = FilePart { of, extents, whole: 30, share: None, live: true };
        let mut tree = KvTree::new();
        part.put(&mut tree);
        assert_eq!(FilePart::take(&tree), Some(Some(part.clone())));
        let part = FilePart { share: Some(0xab), ..part };
        part.put(&mut tree);
        assert_eq!(FilePart::take(&tree), Some(Some(part)));
        assert_eq!(FilePart::take(&KvTree::new()), Some(None));
        for (key, value) in [("OF", "../x"), ("EXTENTS", "zz"), ("WHOLE", "29"), ("SHARE", "")] {
            let mut bad = tree.clone();
            bad.set_value(key, value);
            assert_eq!(FilePart::take(&bad), None, "{key}={value}");
        }
    }
}
