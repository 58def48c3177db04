//! A dataset leaves the cache; its names stay until the program deletes them.

use super::machine::DatasetKey;
use super::namespace::{self as ns, OnPrefix, Remote};
use super::runtime::{Session, State};
use super::site::Links;
use crate::cache::{self, Catalog};
use crate::error::{Error, Result};
use crate::log;

impl Session {
    /// Removes the dataset of `key` from this node. Collective over the node.
    ///
    /// # Errors
    /// Communication failed.
    pub(super) fn evict(&self, links: &Links, key: &DatasetKey, id: u64) -> Result<()> {
        self.stop_background(id);
        let ctx = links.ctx(&self.site);
        {
            let mut state = self.state();
            self.leave_ghosts(&mut state, key);
            state.view.remove(key);
            state.books.remove(key);
        }
        let outcome = match id {
            0 => cache::drop_open(&ctx, &self.record_key(key)),
            _ => cache::evict(&ctx, id),
        };
        match outcome {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(error) => log::message(1, format_args!("rank {}: {error}", self.site.rank)),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Names outlive their content until the program deletes them, unless the PFS has it, or an
    /// other dataset.
    pub(super) fn leave_ghosts(&self, state: &mut State, key: &DatasetKey) {
        let Some(layer) = state.view.layer(key) else { return };
        let flushed = state.books.get(key).is_some_and(|book| book.flushed);
        let Ok(Some(catalog)) = Catalog::read(&layer.dir) else { return };
        for entry in catalog.entries {
            let name = entry.meta.name.clone();
            state.view.settle_in(key, &name);
            if flushed || entry.meta.on_prefix {
                continue;
            }
            let remote = Remote { owner: entry.rank, meta: entry.meta };
            if ns::on_prefix(&self.site.on_prefix(&name)) == OnPrefix::Absent {
                let attributes = remote.attributes();
                state.view.leave_ghost(name, attributes);
            }
        }
    }
}
