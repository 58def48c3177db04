//! Files of older datasets that are published together with a newer one: without ids a checkpoint
//! may rest on them, and then neither may be on the prefix without the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::cache::agree::agree;
use crate::cache::{Catalog, Ctx};
use crate::error::{Error, Result};
use crate::records::{DatasetRecord, FileMeta};

/// What goes along of one older dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Along {
    /// The dataset.
    pub id: u64,
    /// This rank's files, by name.
    pub names: BTreeSet<String>,
}

/// Directories, by file name, of files that are not the dataset's own.
pub(crate) type Sources = BTreeMap<String, PathBuf>;

/// Enters what goes along into the record of the flush. A name that any rank has in a newer dataset
/// is that one's. Collective.
pub(crate) fn take_along(
    ctx: &Ctx,
    record: &mut DatasetRecord,
    along: &[Along],
) -> Result<Sources> {
    let mut sources = Sources::new();
    if along.is_empty() {
        return Ok(sources);
    }
    let (id, epoch) = (record.dataset_id, record.epoch);
    let names = |files: &[FileMeta]| {
        let all = Catalog::gather(ctx.world, id, epoch, &record.key, files)?;
        Ok::<_, Error>(all.entries.into_iter().map(|entry| entry.meta.whole_name().to_owned()))
    };
    let mut taken: BTreeSet<String> = names(&record.files)?.collect();
    let mut chosen = Vec::new();
    for older in along.iter().rev() {
        let own = agree(ctx.world, own_record(ctx, older))?;
        let wanted = own.iter().flat_map(|own| &own.files).filter(|file| {
            let name = file.whole_name();
            !file.on_prefix && older.names.contains(name) && !taken.contains(name)
        });
        let wanted: Vec<FileMeta> = wanted.cloned().collect();
        if let Some(dir) = own.map(|own| ctx.layout.data_dir(&own)) {
            sources.extend(wanted.iter().map(|file| (file.name.clone(), dir.clone())));
        }
        taken.extend(names(&wanted)?);
        chosen.extend(wanted);
    }
    record.files.extend(chosen);
    Ok(sources)
}

fn own_record(ctx: &Ctx, older: &Along) -> Result<Option<DatasetRecord>> {
    match ctx.filemap.get_id(older.id) {
        None if !older.names.is_empty() => {
            Err(Error::Missing(format!("dataset {} is not in the cache", older.id)))
        }
        found => Ok(found),
    }
}
