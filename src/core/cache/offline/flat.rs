//! A dataset whose files all lie in one directory, as version 1.1 had it on the prefix (manual 1.1,
//! section 8): what is lost is rebuilt like any other, beside it.

use std::path::{Path, PathBuf};

use super::found::{Found, link};
use crate::cache::node::disk::{make_own_dir, matches};
use crate::cache::node::layout::{Layout, Store};
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::node::owner::Owner;
use crate::cache::sealing::catalog::Catalog;
use crate::cache::sealing::marker::Marker;
use crate::cache::{CatalogEntry, Protect, Remains, Whole};
use crate::error::Result;
use crate::records::{FileMeta, RecordKey};
use crate::system::Lanes;

#[derive(Debug, Clone)]
pub struct Flat<'a> {
    pub dir: &'a Path,
    pub key: &'a RecordKey,
    pub id: u64,
    pub ranks: usize,
    pub files: Vec<(usize, FileMeta)>,
    pub redundancy: Vec<FileMeta>,
}

const EPOCH: u64 = 0;

impl Flat<'_> {
    /// Rebuilds what is lost below `work`, where links stand for the files. The inner error says
    /// why that is not possible.
    pub(crate) fn restore(
        &self,
        work: &Path,
        protection: &dyn Protect,
        lanes: Lanes,
    ) -> Result<std::result::Result<Whole, String>> {
        let copy = work.join("copy");
        self.stage(&copy.join(format!("scr.dataset.{}", self.id)))?;
        let found = Found::below(std::slice::from_ref(&copy), self.dir)?;
        let mut nodes = Vec::new();
        for (number, one) in found.nodes.iter().enumerate() {
            let node = work.join(format!("node.{number}"));
            one.stage(&node, &|_| node.join("store"))?;
            nodes.push((self.dir.display().to_string(), layout(&node)));
        }
        if nodes.is_empty() {
            return Ok(Err("no redundancy file is there".into()));
        }
        let remains = Remains {
            nodes,
            spare: layout(&work.join("spare")),
            identity: "",
            ranks: self.ranks,
            protection,
            lanes,
            only: None,
        };
        let mut brought = remains.rebuild()?;
        let why = brought.withheld.first().map(|one| one.reason.clone());
        let none = || why.unwrap_or_else(|| "its redundancy files do not fit".into());
        Ok(brought.whole.pop().ok_or_else(none))
    }

    fn stage(&self, dir: &Path) -> Result<()> {
        let own = dir.join(OWN_FOLDER);
        make_own_dir(&own)?;
        for (_, file) in &self.files {
            link(&self.dir.join(&file.name), &dir.join(&file.name))?;
        }
        for file in &self.redundancy {
            // One with another checksum than its sidecar says would spoil what is rebuilt.
            if matches(self.dir, file, true) {
                link(&self.dir.join(&file.name), &own.join(&file.name))?;
            }
        }
        let entry =
            |(rank, meta): &(usize, FileMeta)| CatalogEntry { rank: *rank, meta: meta.clone() };
        let entries = self.files.iter().map(entry).collect();
        Catalog { id: self.id, epoch: EPOCH, key: self.key.clone(), entries }.write(dir)?;
        // It came to the prefix, so it was complete.
        Marker::Confirmed.write(dir, EPOCH)
    }
}

fn layout(node: &Path) -> Layout {
    let cache_dir: PathBuf = node.join("store");
    let store = Store { name: "found".into(), cache_dir, usable: true, is_shared: false };
    Layout { control_dir: node.join("control"), stores: vec![store], owner: Owner::default() }
}
