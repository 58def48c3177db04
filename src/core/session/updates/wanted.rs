//! A rank opens a file that lies on another node, in mid-run: it asks for the whole dataset, and
//! the helper threads of the ranks that hold parts of it write them to the prefix, without MPI.
//!
//! The request is a folder, `<prefix>/.scr/wanted/<id>`, or `<prefix>/.scr/wanted/<key>` for a
//! dataset that is not sealed. One rank a node looks for it there, every two seconds, and repeats
//! it in the node's control directory for the others. All of the dataset goes, or all of it that is
//! closed, so that a reader of many files waits once, and that the prefix never has a part of a
//! checkpoint for long.

use crate::session::machine::Reason;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cache::disk::names_in;
use crate::error::Result;
use crate::files::{create_dirs, remove_tree};
use crate::log;
use crate::records::{self, DatasetState};
use crate::session::machine::DatasetKey;
use crate::session::namespace::answer::Answer;
use crate::session::namespace::{Place, Remote};
use crate::session::rank::runtime::Session;
use crate::transfer::{Awaited, Waited, announce_background, is_published};

/// Between two looks of a node at the prefix.
const LOOK: Duration = Duration::from_secs(2);

/// What a helper thread knows of requests.
#[derive(Debug, Default)]
pub(in crate::session) struct Served {
    /// Id and epoch of the datasets that this rank has begun to write.
    begun: BTreeSet<(u64, u64)>,
    /// Last look at the prefix.
    looked: Option<Instant>,
    /// When files of a dataset that is not sealed were first asked for.
    asked: BTreeMap<DatasetKey, Instant>,
}

impl Session {
    fn wanted_folder(&self) -> PathBuf {
        self.site.state_dir().join("wanted")
    }

    /// What the node's first rank has found.
    fn wanted_here(&self) -> PathBuf {
        self.site.layout.control_dir.join("wanted")
    }

    /// A file of another node: its owner's helper thread writes it to the PFS.
    pub(in crate::session) fn wait_for_remote(
        &self,
        name: &str,
        key: &DatasetKey,
        remote: &Remote,
    ) -> Answer {
        let path = self.site.on_prefix(name);
        let (mut key, mut remote) = (key.clone(), remote.clone());
        loop {
            let book = self.state().books.get(&key).map(|book| (book.id, book.epoch));
            let (id, epoch) = book.unwrap_or_default();
            let there = is_published(&path, &remote.meta);
            let request = if there { None } else { self.ask_for(&key, id) };
            let mut awaited = Awaited::new(&self.site.prefix, &path, id, epoch);
            let waited =
                awaited.wait(&remote.meta, request.as_deref(), crate::session::REMOTE_DEADLINE);
            if waited == Waited::Come {
                if let Some(layer) = self.state().view.layer_mut(&key) {
                    layer.set_on_prefix(name, true);
                }
                return Answer::PASS;
            }
            // Another thread of the program may have heard of another content meanwhile.
            let place = self.state().view.place(name);
            match place {
                Place::Elsewhere(of, now) if (&of, &now) != (&key, &remote) => {
                    (key, remote) = (of, now);
                }
                Place::Elsewhere(..) => return self.tell_missing(name, &remote, waited),
                Place::Cached(_, here) | Place::Private(here) => return Answer::at(here),
                Place::Prefix => return Answer::PASS,
                Place::Deleted | Place::Ghost(_) => return Answer::Fail(libc::ENOENT),
            }
        }
    }

    fn tell_missing(&self, name: &str, remote: &Remote, waited: Waited) -> Answer {
        let why = match waited {
            Waited::Answered => "what its node had to write there does not contain it".to_string(),
            _ => format!("nothing has come for {} s", crate::session::REMOTE_DEADLINE.as_secs()),
        };
        log::warn_once(
            "remote",
            format_args!(
                "rank {}: {name} lies on the node of rank {} and has not reached {}: {why}",
                self.site.rank,
                remote.owner,
                self.site.prefix.display(),
            ),
        );
        Answer::Fail(libc::ENOENT)
    }

    /// Asks for the dataset `key`, sealed as `id` unless that is 0. Local; whoever waits for a file
    /// of it sees whether it comes. Gives the request, which is there until all has come.
    fn ask_for(&self, key: &DatasetKey, id: u64) -> Option<PathBuf> {
        let name = match id {
            0 => self.record_key(key).directory_name(),
            id => id.to_string(),
        };
        // Else announced when it is committed, or not at all.
        let announces = id != 0 && !self.flushes().contains_key(&id);
        let announced = match announces {
            true => announce_background(
                &self.site.prefix,
                &self.site.filemap.get_id(id)?,
                self.site.size,
                self.site.transfer.prefix_size,
            ),
            false => Ok(Vec::new()),
        };
        let request = self.wanted_folder().join(name);
        match announced.and_then(|_| create_dirs(&request, 0o777)) {
            Ok(()) => Some(request),
            Err(error) => {
                log::warn_once("wanted", format_args!("rank {}: {error}", self.site.rank));
                None
            }
        }
    }

    /// Begins to write what somebody has asked for. For the helper thread.
    pub(in crate::session) fn serve_wanted(&self, served: &mut Served) {
        if self.site.leads_node && served.looked.is_none_or(|last| last.elapsed() >= LOOK) {
            served.looked = Some(Instant::now());
            if let Err(error) = self.repeat_wanted() {
                log::message(1, format_args!("rank {}: {error}", self.site.rank));
            }
        }
        let names = names_in(&self.wanted_here()).unwrap_or_default();
        let key = |name: &String| records::DatasetKey::from_directory_name(name);
        let keys = names.iter().filter_map(|name| self.machine_key(&key(name)?));
        let mut ids: BTreeSet<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        for key in keys {
            let id = self.state().books.get(&key).map_or(0, |book| book.id);
            match id {
                0 => self.publish_wanted(&key, served),
                id => drop(ids.insert(id)), // sealed since
            }
        }
        served.begun.retain(|(id, _)| ids.contains(id));
        if names.is_empty() {
            served.asked.clear();
        }
        for id in ids {
            if let Err(error) = self.begin_wanted(id, served) {
                let rank = self.site.rank;
                log::warn_once("wanted", format_args!("rank {rank}: dataset {id}: {error}"));
            }
        }
    }

    /// Writes what is closed of a dataset that is not sealed; pointer files when the other ranks
    /// have had the time to do so.
    fn publish_wanted(&self, key: &DatasetKey, served: &mut Served) {
        let asked = served.asked.entry(key.clone()).or_insert_with(Instant::now);
        let pointers = asked.elapsed() >= LOOK * 2;
        let wanted = self.state().machine.wanted(key);
        let mut now = wanted.iter().filter(|one| pointers || !one.last);
        now.all(|one| self.publish_unsealed_file(one, Reason::Wanted));
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
        if self.site.rank == 0 {
            there.iter().filter(|name| self.is_answered(name)).for_each(|name| {
                let _ = remove_tree(&self.wanted_folder().join(name));
            });
        }
        Ok(())
    }

    /// What is asked for by its key is sealed by now, or gone.
    fn is_answered(&self, request: &str) -> bool {
        let Some(key) = records::DatasetKey::from_directory_name(request) else { return false };
        let Some(key) = self.machine_key(&key) else { return true };
        let state = self.state();
        let sealed = state.books.get(&key).is_some_and(|book| book.id != 0);
        let known = state.machine.datasets(key.series).iter().any(|one| one.key == key);
        sealed || (state.view.layer(&key).is_none() && !known)
    }

    /// Begins with dataset `id`, unless this rank has, or must wait for something else to end.
    fn begin_wanted(&self, id: u64, served: &mut Served) -> Result<()> {
        let record = self.site.filemap.get_id(id);
        let Some(record) = record else { return Ok(()) };
        let Some(key) = self.machine_key(&record.key) else { return Ok(()) };
        if record.state != DatasetState::Prepared {
            self.publish_wanted(&key, served); // it was opened again
            return Ok(());
        }
        let begun = &mut served.begun;
        let seal = (id, record.epoch);
        if begun.contains(&seal) {
            return Ok(());
        }
        if let Some(flush) = self.flushes().get(&id) {
            flush.hurry();
            begun.insert(seal);
            return Ok(());
        }
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
        *running = Some((id, self.begin_background(record, &key)?));
        begun.insert(seal);
        Ok(())
    }

    /// The dataset is on the prefix. For rank 0.
    pub(in crate::session) fn settle_wanted(&self, id: u64) {
        // One that stays is looked at again by nobody who has served it.
        let _ = remove_tree(&self.wanted_folder().join(id.to_string()));
        let _ = std::fs::remove_dir(self.wanted_folder());
    }

    /// Removes what an earlier launch has asked for.
    pub(in crate::session) fn sweep_wanted(&self) {
        if self.site.rank == 0 {
            let _ = remove_tree(&self.wanted_folder());
        }
        if self.site.leads_node {
            let _ = remove_tree(&self.wanted_here());
        }
    }
}
