//! Whether files are what the records say.

use std::path::Path;

use crate::error::{Error, Result};
use crate::records::{FileContent, FileMeta};

/// Tells whether all of `files` that lie in the cache are below `dir` with the recorded size and,
/// where it is known, the recorded checksum. What fails this counts as lost.
#[must_use]
pub fn verify(dir: &Path, files: &[FileMeta]) -> bool {
    files.iter().filter(|file| !file.on_prefix).all(|file| {
        let Ok(content) = FileContent::of(dir, file) else { return false };
        let is_file = std::fs::symlink_metadata(content.path()).is_ok_and(|found| found.is_file());
        let is_right = |crc32| content.crc32().is_ok_and(|found| found == crc32);
        is_file && content.check().is_ok() && file.crc32.is_none_or(is_right)
    })
}

/// Compares checksums that a pass has yielded with recorded ones, as far as both are known.
pub(super) fn compare_crcs(dir: &Path, files: &[FileMeta], found: &[Option<u32>]) -> Result<()> {
    for (file, found) in files.iter().zip(found) {
        if let (Some(recorded), Some(found)) = (file.crc32, *found)
            && recorded != found
        {
            let what = format!("its CRC32 should be {recorded:#x} and is {found:#x}");
            return Err(Error::corrupt(dir.join(&file.name), what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crc32;

    #[test]
    fn size_content_and_kind_count() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), b"abc").unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let a = FileMeta { name: "a".into(), size: 3, ..FileMeta::default() };
        let good = |file: FileMeta| verify(dir.path(), &[file]);
        assert!(verify(dir.path(), &[]));
        assert!(good(a.clone()));
        assert!(good(FileMeta { crc32: Some(crc32(b"abc")), ..a.clone() }));
        assert!(!good(FileMeta { crc32: Some(crc32(b"abd")), ..a.clone() }));
        assert!(!good(FileMeta { size: 4, ..a.clone() }));
        assert!(!good(FileMeta { name: "b".into(), ..a.clone() }));
        assert!(!good(FileMeta { name: "../a".into(), ..a.clone() }));
        let d = std::fs::metadata(dir.path().join("d")).unwrap().len();
        assert!(!good(FileMeta { name: "d".into(), size: d, ..a.clone() }));
        assert!(good(FileMeta { name: "b".into(), on_prefix: true, ..a }));
    }
}
