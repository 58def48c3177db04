//! What other datasets of the prefix have under the names of one. Rank 0 looks, once for all: the
//! summary of a large job takes seconds to parse.

use std::collections::BTreeSet;
use std::path::Path;

use super::paths::{files_of, is_published, read_index};
use crate::cache::Ctx;
use crate::comm::trees;
use crate::error::Result;
use crate::files::join_relative;
use crate::kvtree::KvTree;
use crate::records::{FileMeta, IndexEntry};

pub(super) fn of_newer(prefix: &Path, id: u64, names: &BTreeSet<String>) -> BTreeSet<String> {
    // The run may have gone back to this one from a newer generation, which is kept beside.
    let holds = |other: &IndexEntry| {
        other.id > id && other.replaced_by.is_none_or(|replaced_by| replaced_by > id)
    };
    listed(prefix, names, &holds, &|_, _| true)
}

/// Finds those of `names` under which the prefix has the file of another dataset than `id`: a newer
/// one, or an older one that the run went back to. Else somebody has changed it, to choose where to
/// begin.
pub(crate) fn of_another(prefix: &Path, id: u64, names: &BTreeSet<String>) -> BTreeSet<String> {
    let is_its = |other: u64, file: &FileMeta| {
        other > id || join_relative(prefix, &file.name).is_ok_and(|path| is_published(&path, file))
    };
    listed(prefix, names, &|other| other.id != id, &is_its)
}

/// Returns what rank 0 finds for the names of all ranks by `look`. Collective.
pub(crate) fn ask(
    ctx: &Ctx,
    own: &BTreeSet<String>,
    look: &dyn Fn(&BTreeSet<String>) -> BTreeSet<String>,
) -> Result<BTreeSet<String>> {
    let own = (!own.is_empty()).then(|| (0, to_tree(own).encode()));
    let mut all = BTreeSet::new();
    for (_, bytes) in ctx.world.sparse_exchange(own.into_iter().collect())? {
        all.extend(KvTree::decode(&bytes)?.keys().map(str::to_owned));
    }
    let answer = trees::from_root(ctx.world, &to_tree(&look(&all)), 0)?;
    Ok(answer.keys().map(str::to_owned).collect())
}

fn to_tree(names: &BTreeSet<String>) -> KvTree {
    let mut tree = KvTree::new();
    for name in names {
        tree.child_mut(name);
    }
    tree
}

/// Those of `names` that a summary of the `wanted` datasets lists, and of which `is_its` says so.
fn listed(
    prefix: &Path,
    names: &BTreeSet<String>,
    wanted: &dyn Fn(&IndexEntry) -> bool,
    is_its: &dyn Fn(u64, &FileMeta) -> bool,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if names.is_empty() {
        return found;
    }
    let Ok(index) = read_index(prefix) else { return found };
    for other in index.newest_first().filter(|other| wanted(other)) {
        if found.len() == names.len() {
            break;
        }
        let files = files_of(prefix, other.id).ok().flatten().unwrap_or_default();
        let known = files.iter().filter(|file| names.contains(&file.name));
        found.extend(known.filter(|file| is_its(other.id, file)).map(|file| file.name.clone()));
    }
    found
}
