//! A dataset leaves the cache; its names stay until the program deletes them.

use super::machine::DatasetKey;
use super::namespace::{self as ns, OnPrefix, Remote};
use super::runtime::{Session, State};
use super::site::Links;
use crate::cache::{self, Catalog, Ctx};
use crate::error::{Error, Result};
use crate::files::crc32_of_file;
use crate::log;
use crate::params::keys;

impl Session {
    /// Removes the dataset of `key` from this node. Collective over the node.
    ///
    /// # Errors
    /// Communication failed.
    pub(super) fn evict(&self, links: &Links, key: &DatasetKey, id: u64) -> Result<()> {
        self.stop_background(id);
        self.wake(|one| one.key == *key);
        let ctx = links.ctx(&self.site);
        {
            let mut state = self.state();
            self.leave_ghosts(&mut state, key);
            state.view.remove(key);
            state.books.remove(key);
        }
        if self.site.settings.get(keys::CRC_ON_DELETE) {
            self.check_before_deletion(&ctx, key, id);
        }
        let outcome = match id {
            0 => cache::drop_open(&ctx, &self.record_key(key)),
            _ => cache::evict(&ctx, id),
        };
        match outcome {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(error) => log::message(1, format_args!("rank {}: {error}", self.site.rank)),
            Ok(()) => self.dataset_event("EVICTED", (key, id), |event| event),
        }
        Ok(())
    }

    /// `SCR_CRC_ON_DELETE`: damage in node-local storage that nobody would have noticed.
    fn check_before_deletion(&self, ctx: &Ctx, key: &DatasetKey, id: u64) {
        let Some(record) = ctx.filemap.get_id(id) else { return };
        let dir = ctx.layout.data_dir(&record);
        for file in record.files.iter().filter(|file| !file.on_prefix) {
            let path = dir.join(&file.name);
            let found = crc32_of_file(&path).ok().map(|(_, crc32)| crc32);
            if path.exists() && file.crc32.is_some() && found != file.crc32 {
                log::warn(format_args!(
                    "rank {}: {} of {} has not the content that it was sealed with: the storage of \
                     node {} is not to be trusted",
                    self.site.rank,
                    path.display(),
                    self.title(key),
                    self.site.node_name
                ));
            }
        }
    }

    /// Names outlive their content until the program deletes them, unless the PFS has it, or an
    /// other dataset.
    pub(super) fn leave_ghosts(&self, state: &mut State, key: &DatasetKey) {
        let Some(layer) = state.view.layer(key) else { return };
        let flushed = state.books.get(key).is_some_and(|book| book.flushed);
        let Ok(Some(catalog)) = Catalog::read(&layer.dir) else { return };
        for entry in catalog.entries {
            let name = entry.meta.name.clone();
            let on_prefix = ns::on_prefix(&self.site.on_prefix(&name));
            // Deleted by any rank of the node: at its deletion, or since the catalog was made.
            let deleted = state.view.is_deleted(&name)
                || !state.view.layer(key).is_some_and(|layer| layer.has(&name));
            if on_prefix == OnPrefix::Absent {
                state.view.settle_in(key, &name); // else a flushed copy waits for the deletion, too
            }
            if flushed || deleted || entry.meta.on_prefix {
                continue;
            }
            let remote = Remote { owner: entry.rank, meta: entry.meta };
            if on_prefix == OnPrefix::Absent {
                let attributes = remote.attributes();
                state.view.leave_ghost(name, attributes);
            }
        }
    }
}
