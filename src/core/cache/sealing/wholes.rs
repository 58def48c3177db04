//! Files as the prefix has them: one that several nodes have written is one file there.

use std::collections::{HashMap, HashSet};

use super::packed::CatalogEntry;
use crate::parts::whole_crc32;
use crate::records::FileMeta;

/// Joins the parts of each file, of which all are in `entries`, in that of its lowest rank.
#[must_use]
pub fn whole_files(entries: &[CatalogEntry]) -> Vec<CatalogEntry> {
    let mut all: Vec<CatalogEntry> = Vec::with_capacity(entries.len());
    let mut wholes: HashMap<&str, (usize, Option<u32>)> = HashMap::new();
    for entry in entries {
        let Some(part) = &entry.meta.part else {
            all.push(entry.clone());
            continue;
        };
        let (at, shares) = wholes.entry(&part.of).or_insert_with(|| {
            all.push(CatalogEntry { rank: entry.rank, meta: entry.meta.as_whole() });
            (all.len() - 1, Some(0))
        });
        *shares = shares.zip(entry.meta.crc32).map(|(shares, _)| shares ^ part.share);
        let whole = &mut all[*at];
        whole.rank = whole.rank.min(entry.rank);
        whole.meta.on_prefix |= entry.meta.on_prefix;
        let of = |meta: &FileMeta| (meta.mtime_seconds, meta.mtime_nanoseconds);
        let latest = of(&whole.meta).max(of(&entry.meta));
        (whole.meta.mtime_seconds, whole.meta.mtime_nanoseconds) = latest;
    }
    for (at, shares) in wholes.into_values() {
        let meta = &mut all[at].meta;
        meta.crc32 = shares.filter(|_| !meta.on_prefix).map(|all| whole_crc32(meta.size, [all]));
    }
    all.sort_by_key(|entry| entry.rank);
    all
}

/// Counts files and their bytes; one that several ranks have written counts once.
#[must_use]
pub fn count_files<'a>(entries: impl IntoIterator<Item = &'a CatalogEntry>) -> (u64, u64) {
    let mut seen = HashSet::new();
    let mut bytes = 0_u64;
    for CatalogEntry { meta, .. } in entries {
        if seen.insert(meta.whole_name()) {
            bytes = bytes.saturating_add(meta.part.as_ref().map_or(meta.size, |part| part.whole));
        }
    }
    (seen.len() as u64, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crc32;
    use crate::parts::{CrcShare, Extent};
    use crate::records::FilePart;

    #[test]
    fn parts_are_one_file_of_their_lowest_rank() {
        let part = |rank, extents: &[(u64, &[u8])]| {
            let mut share = CrcShare::new(9);
            extents.iter().for_each(|(at, bytes)| share.add(*at, bytes));
            let ends = extents.iter().map(|(at, all)| Extent::new(*at, at + all.len() as u64));
            let (of, extents) = ("d/all".to_owned(), ends.collect());
            let part = FilePart { of, extents, whole: 9, share: share.value(), live: true };
            let (name, size) = (FilePart::file_name(rank, "d/all"), part.extents.bytes());
            let part = Some(part.into());
            let meta = FileMeta { name, size, crc32: Some(1), part, ..FileMeta::default() };
            CatalogEntry { rank, meta }
        };
        let own = |rank, name: &str, on_prefix| CatalogEntry {
            rank,
            meta: FileMeta { name: name.into(), size: 5, on_prefix, ..FileMeta::default() },
        };
        let mut entries = vec![own(0, "a", false), own(1, "c", true), own(2, "c", true)];
        entries.push(part(2, &[(5, b"fgh")]));
        entries.push(part(1, &[(0, b"ab"), (3, b"de")]));
        let all = whole_files(&entries);
        assert_eq!(all.iter().map(|one| one.rank).collect::<Vec<_>>(), [0, 1, 1, 2]);
        let whole = &all.iter().find(|one| one.meta.is_shared).unwrap().meta;
        assert_eq!((whole.name.as_str(), whole.size, &whole.part), ("d/all", 9, &None));
        assert_eq!(whole.crc32, Some(crc32(b"ab\0defgh\0")));
        assert_eq!(count_files(&entries), (3, 5 + 5 + 9));
        assert_eq!(count_files(&all), (3, 5 + 5 + 9));
        entries[3].meta.crc32 = None;
        assert!(whole_files(&entries).iter().all(|one| one.meta.crc32.is_none()));
    }
}
