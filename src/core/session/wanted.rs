//! A rank opens a file that lies on another node, in mid-run: it asks for the whole dataset, and
//! the helper threads of the ranks that hold parts of it write them to the prefix, without MPI.
//!
//! The request is a folder, `<prefix>/.scr/wanted/<id>`. One rank a node looks for it there, every
//! two seconds, and repeats it in the node's control directory for the others. All of the dataset
//! goes, so that a reader of many files waits once, and that the prefix never has a part of a
//! checkpoint for long.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::machine::DatasetKey;
use super::runtime::Session;
use crate::cache::disk::names_in;
use crate::error::Result;
use crate::files::{create_dirs, remove_tree};
use crate::log;
use crate::records::DatasetState;
use crate::transfer::{Background, BackgroundJob, announce_background};

/// Between two looks of a node at the prefix.
const LOOK: Duration = Duration::from_secs(2);

/// What a helper thread knows of requests.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// Id and epoch of the datasets that this rank has begun to write.
    begun: BTreeSet<(u64, u64)>,
    /// Last look at the prefix.
    looked: Option<Instant>,
}

impl Session {
    fn wanted_folder(&self) -> PathBuf {
        self.site.state_dir().join("wanted")
    }

    /// What the node's first rank has found.
    fn wanted_here(&self) -> PathBuf {
        self.site.layout.control_dir.join("wanted")
    }

    /// Asks for the dataset `key`. Local; whoever waits for a file of it sees whether it comes.
    pub(super) fn ask_for(&self, key: &DatasetKey) {
        let id = self.state().books.get(key).map_or(0, |book| book.id);
        let Some(record) = self.site.filemap.get_id(id) else { return };
        let under_way = self.flushes().contains_key(&id);
        let announced = match under_way {
            true => Ok(()), // when it is committed
            false => announce_background(&self.site.prefix, &record).map(drop),
        };
        let asked =
            announced.and_then(|()| create_dirs(&self.wanted_folder().join(id.to_string()), 0o777));
        if let Err(error) = asked {
            log::warn_once("wanted", format_args!("rank {}: {error}", self.site.rank));
        }
    }

    /// Begins to write what somebody has asked for. For the helper thread.
    pub(super) fn serve_wanted(&self, served: &mut Served) {
        if self.site.leads_node && served.looked.is_none_or(|last| last.elapsed() >= LOOK) {
            served.looked = Some(Instant::now());
            if let Err(error) = self.repeat_wanted() {
                log::message(1, format_args!("rank {}: {error}", self.site.rank));
            }
        }
        let names = names_in(&self.wanted_here()).unwrap_or_default();
        let ids: BTreeSet<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        served.begun.retain(|(id, _)| ids.contains(id));
        for id in ids {
            if let Err(error) = self.begin_wanted(id, &mut served.begun) {
                let rank = self.site.rank;
                log::warn_once("wanted", format_args!("rank {rank}: dataset {id}: {error}"));
            }
        }
    }

    /// The node's folder says what that on the prefix says.
    fn repeat_wanted(&self) -> Result<()> {
        // A look at a folder that is not there is all that this costs, mostly.
        let there = names_in(&self.wanted_folder())?;
        let here = self.wanted_here();
        let known = names_in(&here)?;
        for name in there.iter().filter(|name| !known.contains(name)) {
            create_dirs(&here.join(name), 0o700)?;
        }
        for name in known.iter().filter(|name| !there.contains(name)) {
            remove_tree(&here.join(name))?;
        }
        Ok(())
    }

    /// Begins with dataset `id`, unless this rank has, or must wait for something else to end.
    fn begin_wanted(&self, id: u64, begun: &mut BTreeSet<(u64, u64)>) -> Result<()> {
        let record = self.site.filemap.get_id(id);
        let Some(record) = record.filter(|one| one.state == DatasetState::Prepared) else {
            return Ok(());
        };
        let seal = (id, record.epoch);
        if begun.contains(&seal) {
            return Ok(());
        }
        if let Some(flush) = self.flushes().get(&id) {
            flush.hurry();
            begun.insert(seal);
            return Ok(());
        }
        let Some(key) = self.machine_key(&record.key) else { return Ok(()) };
        let mut running = self.background();
        if running.as_ref().is_some_and(|(_, background)| !background.is_finished()) {
            return Ok(()); // the next look
        }
        if let Some((of, Err(error))) = running.take().map(|(of, ended)| (of, ended.finish())) {
            log::warn_once(
                "wanted",
                format_args!("rank {}: dataset {of}: {error}", self.site.rank),
            );
        }
        let job = BackgroundJob {
            record,
            rank: self.site.rank,
            world_size: self.site.size,
            prefix: self.site.prefix.clone(),
            width: self.site.transfer.flush_width,
        };
        let enter = self.site.host.enter_thread;
        *running = Some((id, Background::start(job, move || enter(), self.publish_if(&key))?));
        begun.insert(seal);
        Ok(())
    }

    /// The dataset is on the prefix. For rank 0.
    pub(super) fn settle_wanted(&self, id: u64) {
        // One that stays is looked at again by nobody who has served it.
        let _ = remove_tree(&self.wanted_folder().join(id.to_string()));
        let _ = std::fs::remove_dir(self.wanted_folder());
    }

    /// Removes what an earlier launch has asked for.
    pub(super) fn sweep_wanted(&self) {
        if self.site.rank == 0 {
            let _ = remove_tree(&self.wanted_folder());
        }
        if self.site.leads_node {
            let _ = remove_tree(&self.wanted_here());
        }
    }
}
