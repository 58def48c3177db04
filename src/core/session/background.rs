//! The flush in the background that a restart begins: its completion, and its end before the data
//! go.

use std::sync::{MutexGuard, PoisonError};

use super::runtime::Session;
use super::site::Links;
use crate::error::Result;
use crate::log;
use crate::transfer::{Background, background_ids, complete_background};

impl Session {
    /// The flush in the background, with the dataset's id.
    pub(super) fn background(&self) -> MutexGuard<'_, Option<(u64, Background)>> {
        self.background.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of dataset `id` are about to go.
    pub(super) fn stop_background(&self, id: u64) {
        let mut running = self.background();
        if running.as_ref().is_some_and(|(of, _)| *of == id)
            && let Some((_, background)) = running.take()
        {
            drop(running);
            background.stop();
        }
    }

    /// Rank 0 enters what all ranks have published into the index. Local.
    pub(super) fn tell_published(&self) {
        if self.site.rank != 0 {
            return;
        }
        let ids = background_ids(&self.site.prefix).unwrap_or_default();
        for id in ids {
            if let Err(error) = complete_background(&self.site.prefix, id) {
                log::warn_once("background", format_args!("dataset {id}: {error}"));
            }
        }
    }

    /// Waits for what is under way, on all ranks. Collective.
    ///
    /// # Errors
    /// Communication failed.
    pub(super) fn complete_background(&self, links: &Links) -> Result<()> {
        let running = self.background().take();
        if let Some((id, background)) = running
            && let Err(error) = background.finish()
        {
            log::warn_once(
                "background",
                format_args!("rank {}: dataset {id}: {error}", self.site.rank),
            );
        }
        links.world.barrier()?;
        self.tell_published();
        Ok(())
    }
}
