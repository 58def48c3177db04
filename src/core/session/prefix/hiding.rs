//! Checkpoints on the prefix that are not to be seen: damaged ones, and those newer than the one
//! that the user chose (SCR_CURRENT) or that is current in the index.

use std::collections::BTreeSet;

use super::abandoned::InPlace;
use crate::cache::RebuildReport;
use crate::comm::trees;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::launch::site::Links;
use crate::log::messages;
use crate::machine::Rejected;
use crate::namespace::{self as ns, HiddenDir};
use crate::records::FileMeta;
use crate::session::prefix::Inspector;
use crate::transfer::put_back;

const DIRS: &str = "DIRS";
const FILES: &str = "FILES";

/// What a restart leaves out.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    pub names: BTreeSet<String>,
    pub rejected: Vec<Rejected>,
    /// Of what is newer than the index's current one: name, and whether it was found damaged.
    pub after_current: Vec<(String, bool)>,
    pub in_place: Option<InPlace>,
    /// Files, such as pointers, that are as they were with the checkpoint that the program starts
    /// from, though hidden ones have files of these names.
    pub restored: BTreeSet<String>,
    /// The newest checkpoint on the prefix that the program starts from; 0 if the cache has newer.
    pub restart: u64,
}

impl Inspector {
    /// Puts back files as they were with the checkpoint `id`, which the program reads where it is.
    /// Collective.
    pub(crate) fn put_back(&self, links: &Links, id: u64, hidden: &mut Hidden) -> Result<()> {
        match put_back(&links.ctx(&self.site), id) {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(error) => self.rank.tell(
                messages::PUT_BACK_FAILED,
                format_args!("{error}; it is not what it was with dataset {id}"),
            ),
            Ok((restored, changed)) => {
                if !changed.is_empty() {
                    let files = changed.join(", ");
                    self.rank.tell(
                        messages::PUT_BACK,
                        format_args!("{files}: again as it was with dataset {id}"),
                    );
                }
                hidden.restored.extend(restored);
            }
        }
        Ok(())
    }

    /// Lets rank 0 look at the directories, so that all see the same. Collective.
    pub(crate) fn hide(
        &self,
        links: &Links,
        hidden: &Hidden,
        report: &RebuildReport,
    ) -> Result<()> {
        if hidden.names.is_empty() {
            return Ok(());
        }
        let mut tree = KvTree::new();
        if self.site.rank == 0 {
            let look = |name: &str| ns::look_at(&self.site.on_prefix(name));
            for name in &self.hidden_dirs(&hidden.names, report) {
                look(name).put_look(tree.child_mut(DIRS).child_mut(name));
            }
            for name in &hidden.names {
                look(name).put_look(tree.child_mut(FILES).child_mut(name));
            }
        }
        let tree = trees::from_root(links.world.as_ref(), &tree, 0)?;
        let mut state = self.node.state();
        for (name, entry) in tree.child(DIRS).iter() {
            let look = FileMeta::look_in(entry).unwrap_or_default();
            state.view.hide_dir(name, HiddenDir::of(self.site.on_prefix(name), &look));
        }
        for (name, entry) in tree.child(FILES).iter() {
            state.view.hide(name, FileMeta::look_in(entry));
        }
        Ok(())
    }

    /// Directories of one checkpoint (the id is in their names) that have only hidden files.
    fn hidden_dirs(&self, names: &BTreeSet<String>, report: &RebuildReport) -> BTreeSet<String> {
        let mut wanted = BTreeSet::new();
        for name in names {
            let Some(matched) = self.rank.match_name(name) else { continue };
            wanted.extend(crate::namespace::own_dirs(name, &matched.masked).map(str::to_string));
        }
        let mut dirs = BTreeSet::new();
        // The innermost first: an outer one may have nothing but those.
        for dir in wanted.into_iter().rev() {
            let Ok(entries) = self.site.on_prefix(&dir).read_dir() else { continue };
            let is_hidden = |entry: std::io::Result<std::fs::DirEntry>| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let name = format!("{dir}/{name}");
                Some(ns::is_ours(&name) || names.contains(&name) || dirs.contains(&name))
            };
            let holds = report.offered.iter().any(|offered| offered.holds(&dir));
            if !holds && entries.into_iter().all(|entry| is_hidden(entry) == Some(true)) {
                dirs.insert(dir);
            }
        }
        dirs
    }
}
