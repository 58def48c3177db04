//! A rank opens a file that lies on another node, in mid-run or of an older checkpoint after a
//! restart: it asks for the whole dataset, and the helper threads of the ranks that hold parts of
//! it write them to the prefix, without MPI.
//!
//! The request is a folder, `<prefix>/.scr/wanted/<id>`: the helpers look for one twice a second.
//! All of the dataset goes, so that a reader of many files waits once, and that the prefix never
//! has a part of a checkpoint for long.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::machine::DatasetKey;
use super::runtime::Session;
use crate::cache::disk::names_in;
use crate::error::Result;
use crate::files::{create_dirs, remove_tree};
use crate::log;
use crate::records::DatasetState;
use crate::transfer::{Background, BackgroundJob, announce_background};

impl Session {
    fn wanted_folder(&self) -> PathBuf {
        self.site.state_dir().join("wanted")
    }

    /// Asks for the dataset `key`. Local; whoever waits for a file of it sees whether it comes.
    pub(super) fn ask_for(&self, key: &DatasetKey) {
        let id = self.state().books.get(key).map_or(0, |book| book.id);
        let Some(record) = self.site.filemap.get_id(id) else { return };
        let asked = announce_background(&self.site.prefix, &record)
            .and_then(|_| create_dirs(&self.wanted_folder().join(id.to_string()), 0o777));
        if let Err(error) = asked {
            log::warn_once("wanted", format_args!("rank {}: {error}", self.site.rank));
        }
    }

    /// Begins to write what somebody has asked for; `served` are the datasets for which this rank
    /// has begun. For the helper thread.
    pub(super) fn serve_wanted(&self, served: &mut BTreeSet<u64>) {
        // A look at a folder that is not there is all that this costs, mostly.
        let names = names_in(&self.wanted_folder()).unwrap_or_default();
        for id in names.iter().filter_map(|name| name.parse().ok()) {
            if !served.contains(&id) && self.begin_wanted(id).unwrap_or(true) {
                served.insert(id);
            }
        }
    }

    /// Returns whether there is nothing more to do for it.
    fn begin_wanted(&self, id: u64) -> Result<bool> {
        let record = self.site.filemap.get_id(id);
        let Some(record) = record.filter(|one| one.state == DatasetState::Prepared) else {
            return Ok(false);
        };
        let mut running = self.background();
        match running.take() {
            Some((of, background)) if of == id || !background.is_finished() => {
                *running = Some((of, background));
                return Ok(of == id);
            }
            Some((_, background)) => drop(background.finish()?),
            None => {}
        }
        let job = BackgroundJob {
            record,
            rank: self.site.rank,
            world_size: self.site.size,
            prefix: self.site.prefix.clone(),
            width: self.site.transfer.flush_width,
        };
        let enter = self.site.host.enter_thread;
        *running = Some((id, Background::start(job, move || enter())?));
        Ok(true)
    }

    /// The dataset is on the prefix. For rank 0.
    pub(super) fn settle_wanted(&self, id: u64) {
        // One that stays is looked at again by nobody who has served it.
        let _ = remove_tree(&self.wanted_folder().join(id.to_string()));
        let _ = std::fs::remove_dir(self.wanted_folder());
    }

    /// Removes what an earlier launch has asked for. For rank 0.
    pub(super) fn sweep_wanted(&self) {
        let _ = remove_tree(&self.wanted_folder());
    }
}
