//! Directories that a person has copied from the nodes of a run, brought into the form of what `scr
//! copy` has brought.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::other_size::{LAUNCH, node_folder, place_of};
use crate::cache::{Found, launch_tree};
use crate::error::{Error, Result};
use crate::system::try_lock;

#[derive(Debug)]
pub struct Gathered {
    pub unknown: Vec<String>,
    /// They keep launches off the directories.
    _leases: Vec<File>,
}

#[derive(Debug)]
pub struct FoundBelow(Found);

/// Looks for datasets of a run below `dirs`.
pub fn look_below(dirs: &[PathBuf], prefix: &Path) -> Result<FoundBelow> {
    let found = Found::below(dirs, prefix)?;
    if found.nodes.is_empty() {
        let names: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        let all = [vec![format!("{} has no dataset of a run", names.join(", "))], found.unknown];
        return Err(Error::Refused(all.concat().join("; ")));
    }
    if found.ranks == 0 && !found.has_identity() {
        return Err(Error::Refused(format!(
            "nothing tells how many ranks the run had: copy the control directory of a node \
             ({LAUNCH}), too"
        )));
    }
    Ok(FoundBelow(found))
}

/// Makes `folder` from what was found, by links where that is possible. `prefix` is named where
/// nothing else tells which run it was.
pub fn gather_found(found: FoundBelow, folder: &Path, prefix: &Path) -> Result<Gathered> {
    let found = found.0;
    let controls = found.nodes.iter().filter_map(|node| node.control.as_deref());
    let leases: Vec<Option<File>> = controls.map(hold).collect::<Result<_>>()?;
    for (number, one) in found.nodes.iter().enumerate() {
        let node = node_folder(folder, &number.to_string());
        one.stage(&node, &|store| place_of(folder, &node, store, false))?;
    }
    if !found.has_identity() {
        let identity = format!("{} | {} | found", prefix.display(), found.ranks);
        let tree = launch_tree(&identity, false);
        tree.write_file(node_folder(folder, "0").join("control").join(LAUNCH))?;
    }
    Ok(Gathered { unknown: found.unknown, _leases: leases.into_iter().flatten().collect() })
}

fn hold(control: &Path) -> Result<Option<File>> {
    let Ok(lease) = File::open(control.join("lease")) else { return Ok(None) };
    match try_lock(&lease) {
        Ok(false) => Err(Error::Busy(format!("a live run uses {}", control.display()))),
        // A file system without locks: no launch of a node would be there.
        Ok(true) | Err(_) => Ok(Some(lease)),
    }
}
