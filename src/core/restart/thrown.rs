//! What the program has deleted stays deleted, although a restart still has it. Each sealed dataset
//! notes which files of older ones were gone ([`DatasetRecord::gone`]); who begins with it does not
//! find them.
//!
//! [`DatasetRecord::gone`]: crate::records::DatasetRecord::gone

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::cache::Offered;
use crate::comm::{Comm, trees};
use crate::error::Result;
use crate::files::join_relative;
use crate::kvtree::KvTree;

/// What the records of all ranks say of the files of the datasets that are offered, by their ids.
#[derive(Debug, Default)]
pub struct LastWords {
    /// Of these files the prefix has the last word.
    pub left: BTreeMap<u64, BTreeSet<String>>,
    /// These files of older datasets were gone, with when the prefix's file was last changed.
    gone: BTreeMap<u64, BTreeMap<String, u64>>,
}

impl LastWords {
    /// Gathers them from all ranks: whoever has one of the files may have lost his record.
    /// Collective.
    pub fn gather(world: &dyn Comm, offered: &[Offered]) -> Result<LastWords> {
        let mut own = KvTree::new();
        for one in offered {
            let of = |key: &str| format!("{key} {}", one.id);
            one.left.iter().for_each(|name| own.child_mut(of("LEFT")).set_flag(name, true));
            one.gone.iter().for_each(|(name, time)| {
                own.child_mut(of("GONE")).set_value(name, time);
            });
        }
        let mut all = LastWords::default();
        for (key, names) in trees::all_gather(world, &own)?.iter().flatten() {
            let Some((key, id)) = key.split_once(' ') else { continue };
            let Ok(id) = id.parse() else { continue };
            if key == "LEFT" {
                all.left.entry(id).or_default().extend(names.keys().map(str::to_string));
                continue;
            }
            let gone = all.gone.entry(id).or_default();
            for name in names.keys() {
                // Who has the file may have brought it there before he heard that it is gone.
                let latest = gone.entry(name.to_string()).or_default();
                *latest = names.get_u64(name).unwrap_or(0).max(*latest);
            }
        }
        Ok(all)
    }

    /// Leaves to the prefix what is gone of the offered datasets; returns what is to go there, too,
    /// if it was last changed at the given time. A dataset as new as the one that notes it may have
    /// made the file again. The same on all ranks.
    pub fn heed(&mut self, offered: &[Offered]) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (id, names) in &self.gone {
            for (name, time) in names {
                let is_left = |id: u64| self.left.get(&id).is_some_and(|left| left.contains(name));
                let (older, newer): (Vec<_>, Vec<_>) =
                    offered.iter().filter(|one| one.has(name)).partition(|one| one.id < *id);
                if newer.iter().any(|one| !is_left(one.id)) {
                    continue;
                }
                for one in older {
                    self.left.entry(one.id).or_default().insert(name.clone());
                }
                all.insert(name.clone(), *time);
            }
        }
        all
    }
}

/// Returns the names of `gone` under which the prefix has what it had then, not what somebody has
/// put back since; or what this start has `published` of these, to complete a flush.
pub fn still_there(prefix: &Path, gone: &BTreeMap<String, u64>, published: &[&Offered]) -> KvTree {
    let mut there = KvTree::new();
    for (name, time) in gone {
        let Ok(path) = join_relative(prefix, name) else { continue };
        let now = last_change(&path);
        if now > 0 && (now == *time || published.iter().any(|one| one.has(name))) {
            there.set_flag(name, true);
        }
    }
    there
}

/// Returns when the file at `path` was last changed in any way, nanoseconds since 1970; 0 if there
/// is none. What somebody puts back under its name has another time, whatever its data's is.
pub fn last_change(path: &Path) -> u64 {
    let Ok(found) = path.symlink_metadata() else { return 0 };
    let seconds = u64::try_from(found.ctime()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec().unsigned_abs())
}
