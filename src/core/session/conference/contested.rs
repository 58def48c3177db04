//! The last look at a dataset that is sealed: has each of its files one writer? Learning sees to
//! that; but a user may have said that it is not needed.

use crate::cache::{CatalogEntry, NodeCatalog};
use crate::comm::ranks::ranks_phrase;
use crate::error::{Error, Result};
use crate::machine::{Contested, DatasetKey, contested_reason};
use crate::session::rank::runtime::Session;

impl Session {
    /// Checks that no file of the dataset was written by several ranks. The same on all ranks.
    ///
    /// # Errors
    /// Several ranks have the same file: the seal must come to nothing. What is to be done about it
    /// is.
    pub(in crate::session) fn check_writers(
        &self,
        key: &DatasetKey,
        catalog: &NodeCatalog,
    ) -> Result<()> {
        let contested: Vec<CatalogEntry> = catalog.contested().collect();
        let contested: Vec<&[CatalogEntry]> =
            contested.chunk_by(|one, next| one.meta.name == next.meta.name).collect();
        let Some(first) = contested.first() else { return Ok(()) };
        let (name, ranks) = (&first[0].meta.name, ranks_of(first));
        let error = format!("{name} was written by {}", ranks_phrase(&ranks));
        let of_file = |writers: &&[CatalogEntry]| {
            let name = &writers[0].meta.name;
            let (file, ranks) = (self.file_ref(name)?, ranks_of(writers));
            let others = || ranks_phrase(&ranks[1..]);
            let spoiled = (!are_alike(writers)).then(|| contested_reason(name, &others()));
            Some(Contested { file, ranks, spoiled })
        };
        let files: Vec<Contested> = contested.iter().filter_map(of_file).collect();
        let mut state = self.state();
        for one in files.iter().filter(|one| one.spoiled.is_none()) {
            if one.ranks.contains(&self.site.rank) && one.ranks[0] != self.site.rank {
                state.leave_file(key, &one.file.name);
            }
        }
        state.machine.settle_contested(key, &files);
        Err(Error::Refused(error))
    }
}

fn ranks_of(writers: &[CatalogEntry]) -> Vec<usize> {
    writers.iter().map(|writer| writer.rank).collect()
}

/// Ranks of one node that wrote to one file have one content, and so may any others.
fn are_alike(writers: &[CatalogEntry]) -> bool {
    let content = |writer: &CatalogEntry| (writer.meta.size, writer.meta.crc32);
    let mut all = writers.iter();
    all.all(|one| !one.meta.on_prefix && content(one) == content(&writers[0]))
}
