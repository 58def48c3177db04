//! What a process on a node does for a question.

use std::path::{Path, PathBuf};

use super::exchange::folder_of;
use super::question::Question;
use crate::cache::{Catalog, Layout, NodeState, PartsWanted, parts_of, unsealed_dirs};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, copy_file, create_dirs, join_relative};
use crate::kvtree::KvTree;
use crate::launch::JobPlaces;
use crate::operations::prefix::alone_on_node;
use crate::transfer::{copy_parts, put_parts_back, write_part};

/// Its form is `NODE / <node> / <number> / DSET, RANK, DIR, FILE`, and OF for a part.
pub(super) const WANTED: &str = "wanted.scr";

pub(super) fn copy_of(folder: &Path, id: u64) -> PathBuf {
    folder.join("files").join(id.to_string())
}

/// Answers a question on this node, which is called `node`.
pub fn answer(question: &Question, places: &JobPlaces, node: &str) -> Result<KvTree> {
    let layout = &places.layout;
    match question {
        Question::Look { depth, id, unsealed } => {
            NodeState::look(layout, *depth, *id, *unsealed).map(|state| state.to_tree())
        }
        Question::Catalog { id } => {
            let dirs = layout.stores.iter().map(|store| layout.dataset_dir(&store.name, *id));
            for dir in dirs {
                if let Some(catalog) = Catalog::read(&dir)? {
                    return Ok(catalog.to_tree());
                }
            }
            Err(Error::Missing(format!("no list of the files of dataset {id} is there")))
        }
        Question::Bring { folder } => bring(places, &folder_of(places, folder)?, node),
        Question::Parts { folder, id, ranks } => {
            let folder = folder_of(places, folder)?;
            let wanted = PartsWanted { id: *id, ranks };
            alone_on_node(places, || copy_parts(layout, &folder, node, wanted))?;
            Ok(KvTree::new())
        }
        Question::Mend { folder, id } => {
            let folder = folder_of(places, folder)?;
            let mended = alone_on_node(places, || put_parts_back(layout, &folder, node, *id))?;
            Ok(mended.to_tree())
        }
    }
}

fn bring(places: &JobPlaces, folder: &Path, node: &str) -> Result<KvTree> {
    let path = folder.join(WANTED);
    let list = KvTree::read_file(&path)?;
    let list = list.ok_or_else(|| Error::Missing(format!("{} is not there", path.display())))?;
    let mut failed = KvTree::new();
    for (number, entry) in list.child("NODE").child(node).iter() {
        if let Err(error) = copy_one(&places.layout, folder, entry) {
            failed.set_value(number, error);
        }
    }
    Ok(failed)
}

fn copy_one(layout: &Layout, folder: &Path, entry: &KvTree) -> Result<()> {
    let asked = || {
        let (id, dir) = (entry.get_u64("DSET")?, entry.get_value("DIR")?);
        Some((id, Path::new(dir), entry.get_value("FILE")?))
    };
    let unknown = || Error::Unreadable("the list of wanted files is of another version".into());
    let (id, dir, name) = asked().ok_or_else(unknown)?;
    let gone = || Error::Missing("it has left the cache meanwhile".into());
    let (dir, meta) = match entry.parse::<usize>("RANK") {
        Some(rank) => {
            let mut parts = parts_of(layout, id)?.into_iter();
            let part = parts.find(|((owner, _), _)| *owner == rank).ok_or_else(gone)?;
            let ((_, record), dir) = part;
            let meta = record.files.into_iter().find(|file| file.name == name);
            (dir, Some(meta.ok_or_else(gone)?))
        }
        None => {
            let dirs = unsealed_dirs(layout)?;
            (dirs.into_iter().find(|one| one == dir).ok_or_else(gone)?, None)
        }
    };
    let options = CopyOptions { crc32: true, sync: true, ..CopyOptions::default() };
    let copies = copy_of(folder, id);
    let Some(meta) = meta else {
        return copy_file(&join_relative(&dir, name)?, &place_in(&copies, name)?, options)
            .map(drop);
    };
    let changed =
        || Error::corrupt(dir.join(meta.place()), "it is not what was sealed; see scr verify");
    if let Some(part) = &meta.part {
        // The other nodes write to the same file.
        let whole = place_in(&copies, &part.of)?;
        let written = write_part(&dir, &whole, &meta, part, options);
        let written = written.map_err(|error| match error {
            Error::Corrupt { .. } => changed(),
            error => error,
        });
        let (_, copy) = written?;
        return copy.sync_all().map_err(|error| Error::io("cannot sync", whole, error));
    }
    let to = place_in(&copies, name)?;
    let copied = copy_file(&join_relative(&dir, name)?, &to, options)?;
    if copied.bytes != meta.size || (meta.crc32.is_some() && copied.crc32 != meta.crc32) {
        // Nobody is to take it for the file.
        let _ = std::fs::remove_file(&to);
        return Err(changed());
    }
    Ok(())
}

/// Returns where `name` lies below `dir`, and makes its directory.
fn place_in(dir: &Path, name: &str) -> Result<PathBuf> {
    let path = join_relative(dir, name)?;
    create_dirs(path.parent().unwrap_or(dir), 0o700)?;
    Ok(path)
}
