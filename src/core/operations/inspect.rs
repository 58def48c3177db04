//! Files that begin with a tree: metadata, and redundancy files, whose tree data follows.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};
use crate::kvtree::KvTree;

/// What such a file holds.
#[derive(Debug)]
pub struct InspectedFile {
    /// Its tree, whose checksum was right.
    pub tree: KvTree,
    /// Bytes of the tree in the file, header included.
    pub tree_bytes: u64,
    /// Bytes behind it: 0 but in redundancy files.
    pub data_bytes: u64,
}

/// Reads the file's tree.
pub fn inspect_file(path: &Path) -> Result<InspectedFile> {
    let mut file = File::open(path).map_err(|error| Error::io("cannot open", path, error))?;
    let (tree, tree_bytes) = KvTree::read_prefix(&mut file, path)?;
    let found = file.metadata().map_err(|error| Error::io("cannot read", path, error))?;
    // It may have been replaced by a shorter one meanwhile.
    Ok(InspectedFile { tree, tree_bytes, data_bytes: found.len().saturating_sub(tree_bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_behind_the_tree_is_counted_and_damage_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.scr");
        let mut tree = KvTree::new();
        tree.set_value("CHUNK", 7);
        tree.write_file(&path).unwrap();
        let alone = inspect_file(&path).unwrap();
        assert_eq!((alone.tree, alone.data_bytes), (tree.clone(), 0));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend([1; 7]);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(inspect_file(&path).unwrap().data_bytes, 7);
        for damage in [&b""[..], b"text, no tree of any kind", &bytes[..30]] {
            std::fs::write(&path, damage).unwrap();
            assert!(matches!(inspect_file(&path), Err(Error::Corrupt { .. })));
        }
        assert!(inspect_file(&dir.path().join("none")).is_err());
        assert!(inspect_file(dir.path()).is_err());
    }
}
