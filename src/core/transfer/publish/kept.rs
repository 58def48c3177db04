//! Files that each checkpoint writes anew under the same name, such as a pointer to the newest one:
//! a copy stays in the folder of each dataset, for a run that goes back. No link: what the program
//! does to its file later must not reach it.

use std::path::{Path, PathBuf};

use super::single::publish_file;
use super::stage::{publish_staged, stage};
use super::staged::staged_path;
use crate::cache::agree::agree;
use crate::cache::{Catalog, Ctx};
use crate::comm::trees;
use crate::error::Result;
use crate::files::{CopyOptions, join_relative};
use crate::kvtree::KvTree;
use crate::records::FileMeta;
use crate::transfer::prefix::findings::is_right;
use crate::transfer::prefix::others::of_another;
use crate::transfer::prefix::paths::copy_place;
use crate::transfer::prefix::verify::read_summary;

/// A larger file is no pointer; copies for each checkpoint would fill the file system.
const BYTES_MAX: u64 = 1 << 20;

/// Keeps a copy of the staged file of `meta`, which is about to get its name. A restart does
/// without a copy that cannot be written.
pub(super) fn keep(prefix: &Path, part: &Catalog, meta: &FileMeta) -> Result<()> {
    if !part.key.is_shared_name(meta.whole_name()) || meta.size > BYTES_MAX {
        return Ok(());
    }
    let meta = &meta.as_whole();
    let staged = staged_path(&join_relative(prefix, &meta.name)?, part.epoch)?;
    if !staged.exists() {
        return Ok(()); // It had its name, and so its copy, before a completion that is repeated.
    }
    let copy = copy_place(prefix, part.id, &meta.name)?;
    stage(&staged, &copy, part.epoch, Some(meta), CopyOptions::default())?;
    publish_staged(&copy, part.epoch).map(drop)
}

pub(crate) fn find(prefix: &Path, id: u64, meta: &FileMeta) -> Option<PathBuf> {
    copy_place(prefix, id, &meta.name)
        .ok()
        .filter(|copy| copy.exists() && is_right(copy, meta, true))
}

/// Makes the files that other datasets have, too, what they were with dataset `id`, which is read
/// where it is. Returns the names of those that are so now, and of those that have changed.
/// Collective.
pub fn put_back(ctx: &Ctx, id: u64) -> Result<(Vec<String>, Vec<String>)> {
    let Ok(summary) = read_summary(ctx, id)? else { return Ok((Vec::new(), Vec::new())) };
    let mut tree = KvTree::new();
    let mut work = || {
        let mut displaced = Vec::new();
        for file in summary.files.values().flatten() {
            if !summary.dataset.key.is_shared_name(&file.name) {
                continue;
            }
            let target = join_relative(ctx.prefix, &file.name)?;
            if is_right(&target, file, true) {
                tree.child_mut("SAME").child_mut(&file.name);
            } else if let Some(copy) = find(ctx.prefix, id, file) {
                displaced.push((&file.name, copy, target));
            }
        }
        let names = displaced.iter().map(|(name, ..)| (*name).clone()).collect();
        let theirs = of_another(ctx.prefix, id, &names);
        for (name, copy, target) in displaced.iter().filter(|one| theirs.contains(one.0)) {
            publish_file(ctx.prefix, copy, target)?;
            tree.child_mut("CHANGED").child_mut(name);
        }
        Ok(())
    };
    agree(ctx.world, if ctx.world.rank() == 0 { work() } else { Ok(()) })?;
    let tree = trees::from_root(ctx.world, &tree, 0)?;
    let names = |key| tree.child(key).iter().map(|(name, _)| name.to_owned()).collect();
    let (same, changed): (Vec<String>, Vec<String>) = (names("SAME"), names("CHANGED"));
    Ok(([same, changed.clone()].concat(), changed))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cache::CatalogEntry;
    use crate::cache::disk::describe;
    use crate::records::RecordKey;
    use crate::transfer::publish::journal::publish_part;

    fn part(id: u64, metas: &[FileMeta]) -> Catalog {
        let key = RecordKey { series: "ckpt".into(), id: format!("{id}0"), generation: 0 };
        let entry = |meta: &FileMeta| CatalogEntry { rank: 0, meta: meta.clone() };
        Catalog { id, epoch: id, key, entries: metas.iter().map(entry).collect() }
    }

    #[test]
    fn each_checkpoint_keeps_its_own_pointer_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (prefix, cached) = (dir.path().join("prefix"), dir.path().join("cached"));
        let mut pointers = Vec::new();
        for id in [1, 2] {
            let mut metas = Vec::new();
            for (name, content) in [("latest", format!("step_{id}0")), ("data", "d".into())] {
                let name = if name == "data" { format!("step_{id}0/data") } else { name.into() };
                fs::write(&cached, content).unwrap();
                let (_, crc32) = crate::files::crc32_of_file(&cached).unwrap();
                let meta = FileMeta { crc32: Some(crc32), ..describe(&cached, &name).unwrap() };
                let target = prefix.join(&name);
                stage(&cached, &target, id, Some(&meta), CopyOptions::default()).unwrap();
                metas.push(meta);
            }
            publish_part(&prefix, &part(id, &metas)).unwrap();
            publish_part(&prefix, &part(id, &metas)).unwrap(); // a completion that is repeated
            assert_eq!(find(&prefix, id, &metas[1]), None);
            pointers.push(metas.swap_remove(0));
        }
        assert_eq!(fs::read(prefix.join("latest")).unwrap(), b"step_20");
        let kept = find(&prefix, 1, &pointers[0]).unwrap();
        assert_eq!(fs::read(&kept).unwrap(), b"step_10");
        assert_eq!(find(&prefix, 2, &pointers[0]), None);
        fs::write(&kept, "damaged").unwrap();
        assert_eq!(find(&prefix, 1, &pointers[0]), None);
    }
}
