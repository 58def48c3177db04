//! A dataset leaves the cache; its names stay until the program deletes them.

use crate::cache::{self, Ctx};
use crate::error::{Error, Result};
use crate::events::GIVEN_UP;
use crate::files::crc32_of_file;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{DatasetKey, DatasetState};
use crate::namespace::{self as ns, OnPrefix, SHADOWS};
use crate::params::keys;
use crate::session::{conference::Conference, node::State};

impl Conference {
    /// Removes the dataset. Collective over the node.
    pub(crate) fn evict(&self, links: &Links, key: &DatasetKey, id: u64) -> Result<()> {
        self.flush.stop_background(id);
        self.report.write_given_up(key);
        let ctx = links.ctx(&self.site);
        if self.site.settings.get(keys::CRC_ON_DELETE) {
            self.check_before_deletion(&ctx, key, id);
        }
        let gone = {
            let mut state = self.node.state();
            self.stores.keep_spares(&mut state, &ctx, key, id);
            let gone = state.leave_evicted_names(key);
            self.keep_opened(&mut state, key);
            state.view.remove(key);
            state.own.holdings.remove(key);
            state.own.parted.forget(key);
            gone
        };
        let outcome = match id {
            0 => cache::drop_open(&ctx, &self.rank.record_key(key)),
            _ => cache::set_aside(&ctx, id).map(|evicted| self.evicted.add(evicted)),
        };
        match outcome {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(error) => log::message(1, format_args!("rank {}: {error}", self.site.rank)),
            Ok(()) => {
                let note = if self.is_given_up(key) { GIVEN_UP } else { "" };
                self.rank.dataset_event("EVICTED", key, id, |event| event.note(note));
            }
        }
        // Not before: a rank of the node that heard of it would leave names of deleted files.
        let mut state = self.node.state();
        for name in gone.iter().filter(|name| state.view.is_deleted(name)).collect::<Vec<_>>() {
            // Else a flushed copy waits for the deletion, too.
            if ns::on_prefix(&self.site.on_prefix(name)) == OnPrefix::Absent {
                state.view.settle_in(key, name);
            }
        }
        Ok(())
    }

    /// Tells whether the dataset leaves the cache because the program has deleted it, or written it
    /// anew: where its word counts, nothing else makes one leave that was not flushed.
    fn is_given_up(&self, key: &DatasetKey) -> bool {
        let state = self.node.state();
        let mut all = state.machine.datasets(key.series).iter();
        let unflushed = all.any(|one| {
            one.key == *key && one.id != 0 && one.state != DatasetState::Dropped && !one.flushed
        });
        unflushed && self.site.keeps(&self.rank.series.series()[key.series])
    }

    /// `SCR_CRC_ON_DELETE`: damage in node-local storage that nobody would have noticed.
    fn check_before_deletion(&self, ctx: &Ctx, key: &DatasetKey, id: u64) {
        let Some(record) = ctx.filemap.get_id(id) else { return };
        let dir = ctx.layout.data_dir(&record);
        for file in record.files.iter().filter(|file| !file.on_prefix) {
            let path = dir.join(&file.name);
            let found = crc32_of_file(&path).ok().map(|(_, crc32)| crc32);
            if path.exists() && file.crc32.is_some() && found != file.crc32 {
                log::warn(
                    messages::STORE_UNTRUSTED,
                    format_args!(
                        "rank {}: {} of {} has not the content that it was sealed with: the \
                         storage of node {} is not to be trusted",
                        self.site.rank,
                        path.display(),
                        self.rank.title(key),
                        self.site.node_name
                    ),
                );
            }
        }
    }

    /// Files of the dataset that the program has open for update: what they were tells at the close
    /// whether it has changed them. A name costs nothing, unlike a copy.
    fn keep_opened(&self, state: &mut State, key: &DatasetKey) {
        let Some(layer) = state.view.layer(key) else { return };
        let (dir, mut names) = (layer.dir.clone(), state.own.tokens.readers_of(key));
        // Of others this node may have a part: they are open on the prefix.
        names.retain(|name| !layer.is_elsewhere(name) && !layer.is_on_prefix(name));
        let folder = self.site.layout.cache_dir(&self.stores.store_for(state, key)).join(SHADOWS);
        for name in names {
            let kept = folder.join(format!("kept.{}", self.handles.copy_number()));
            let made = ns::make_parents(&folder, "x")
                .and_then(|()| ns::remove(&kept))
                .is_ok_and(|()| std::fs::hard_link(dir.join(&name), &kept).is_ok());
            if made {
                state.own.tokens.keep(key, &name, &kept);
            }
        }
    }
}
