//! Checkpoints that cannot be offered, and that the prefix has a part of. A program that scans for
//! its newest checkpoint would begin with half of one, so that part is hidden.

use super::hiding::Hidden;
use crate::cache::{Catalog, RebuildReport, Withheld, whole_files};
use crate::comm::trees;
use crate::error::Result;
use crate::files::modified;
use crate::kvtree::KvTree;
use crate::launch::site::Links;
use crate::records::FileMeta;
use crate::restart::index::Index;
use crate::session::prefix::Inspector;

impl Inspector {
    /// Hides them. Collective.
    pub(crate) fn hide_halves(
        &self,
        links: &Links,
        report: &RebuildReport,
        known: &Index,
        hidden: &mut Hidden,
    ) -> Result<()> {
        let counts = |one: &&Withheld| one.id > 0 && !one.deleted && !one.key.id.is_empty();
        let chosen: Vec<&Withheld> = known.lost(report).filter(counts).collect();
        let is_offered = |name: &str| report.offered.iter().any(|offered| offered.has(name));
        for one in chosen {
            let catalog = self.catalog_of(one);
            // Each node has one; a single rank looks at the prefix.
            let having = links.world.all_gather(&[u8::from(catalog.is_some())])?;
            let Some(root) = having.iter().position(|has| has == &[1]) else { continue };
            let mut tree = KvTree::new();
            if let Some(catalog) = catalog.filter(|_| root == self.site.rank) {
                for name in self.part_on_prefix(&catalog, one.spoiled) {
                    tree.child_mut(name);
                }
            }
            let tree = trees::from_root(links.world.as_ref(), &tree, root)?;
            let names = tree.keys().filter(|name| !is_offered(name));
            hidden.names.extend(names.map(str::to_string));
        }
        Ok(())
    }

    fn catalog_of(&self, one: &Withheld) -> Option<Catalog> {
        let record = self.site.filemap.get_id(one.id).filter(|record| record.key == one.key)?;
        let found = Catalog::read(&self.site.layout.data_dir(&record)).ok().flatten()?;
        (found.id == one.id && found.key == one.key).then_some(found)
    }

    /// Files that the prefix has as they were sealed or, if it is `spoiled`, in whatever state;
    /// none if it has all of them.
    fn part_on_prefix(
        &self,
        catalog: &Catalog,
        spoiled: bool,
    ) -> impl Iterator<Item = String> + use<> {
        let is_there = |file: &FileMeta| {
            let time = (file.mtime_seconds, file.mtime_nanoseconds);
            let changed = spoiled && file.on_prefix && !catalog.key.is_shared_name(&file.name);
            self.site.on_prefix(&file.name).symlink_metadata().is_ok_and(|found| {
                let same = found.len() == file.size && modified(&found) == time;
                changed || same
            })
        };
        let entries = whole_files(&catalog.entries);
        let files = entries.iter().map(|entry| &entry.meta);
        let there: Vec<String> =
            files.clone().filter(|file| is_there(file)).map(|it| it.name.clone()).collect();
        let is_absent =
            |file: &FileMeta| self.site.on_prefix(&file.name).symlink_metadata().is_err();
        let is_part = match spoiled {
            true => files.clone().any(is_absent), // else somebody may have written all of it anew
            false => there.len() < entries.len(),
        };
        there.into_iter().filter(move |_| is_part)
    }
}
