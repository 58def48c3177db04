//! The ranks of a node see at once what each does with names (DESIGN section 5): a log in shared
//! memory, told when the state is let go, heard when it is taken.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, OnceLock};

use super::namespace::Told;
use super::runtime::{Session, State};
use super::site::{Links, Site};
use crate::error::Result;
use crate::files::remove_file_if_there;
use crate::log;
use crate::system::{Heard, SharedLog};

/// The file's name in the control directory; it is there while the ranks start only.
const FILE: &str = "names";

/// What this rank tells and hears.
#[derive(Default)]
pub(super) struct Neighbours {
    log: OnceLock<SharedLog>,
    /// Ranks of this node.
    ranks: OnceLock<Vec<usize>>,
    /// Heard up to here. Changed with the state locked.
    place: AtomicU64,
}

impl Neighbours {
    /// Opens the log of this launch. Collective. Without one, what others do is seen when it is
    /// agreed on.
    ///
    /// # Errors
    /// Communication failed.
    pub fn meet(&self, links: &Links, site: &Site) -> Result<()> {
        if site.ranks_on_node < 2 {
            return Ok(());
        }
        let path = site.layout.control_dir.join(FILE);
        let made = !site.leads_node || make(&path);
        links.node.all_max(&mut [0])?; // it is there
        let log = if made { SharedLog::open(&path).ok() } else { None };
        let mut missing = [i64::from(log.is_none())];
        links.node.all_max(&mut missing)?;
        if site.leads_node {
            let _ = remove_file_if_there(&path); // the next start does it
        }
        let _ = self.ranks.set(links.node_ranks.clone());
        match log.filter(|_| missing == [0]) {
            Some(log) => drop(self.log.set(log)),
            None => log::message(1, format_args!("{} cannot be shared", path.display())),
        }
        Ok(())
    }

    /// Ranks of this node, unless it has one only.
    pub fn ranks(&self) -> &[usize] {
        self.ranks.get().map_or(&[], Vec::as_slice)
    }

    fn tell(&self, told: &[Told], rank: usize) {
        if let Some(log) = self.log.get() {
            for told in told {
                let _ = log.tell(&told.to_bytes(rank)); // a name too long waits for the agreement
            }
        }
    }
}

fn make(path: &Path) -> bool {
    remove_file_if_there(path).is_ok() && SharedLog::create(path).is_ok()
}

impl Session {
    /// Takes in what the others of the node have told since the last time.
    pub(super) fn hear_neighbours(&self, state: &mut State) {
        let Neighbours { log, place: heard_to, .. } = &self.neighbours;
        let Some(log) = log.get() else { return };
        let mut place = heard_to.load(Ordering::Relaxed);
        if log.now() == place {
            return;
        }
        loop {
            match log.hear(&mut place) {
                Heard::Nothing => break,
                Heard::Missed => {
                    state.view.forget_told(self.neighbours.ranks());
                    state.machine.forget_near();
                }
                Heard::Message(bytes) => match Told::from_bytes(&bytes) {
                    Some((rank, told)) if rank != self.site.rank => self.heed(state, rank, told),
                    _ => {}
                },
            }
        }
        heard_to.store(place, Ordering::Relaxed);
    }

    fn heed(&self, state: &mut State, rank: usize, told: Told) {
        let name = match &told {
            Told::Deleted(name) | Told::Made(name) => name.as_str(),
            Told::OnPrefix(name) | Told::DirGone(name) => name.as_str(),
            _ => "",
        };
        match (&told, self.file_ref(name)) {
            (Told::Deleted(_), Some(file)) => state.machine.deleted_just_now(&file),
            (Told::Made(_), Some(file)) => state.machine.made_just_now(&file),
            (Told::OnPrefix(_), Some(file)) => {
                for key in state.machine.taken_just_now(&file) {
                    let book = state.books.entry(key).or_default();
                    book.files.insert(file.name.clone(), true);
                }
            }
            (Told::Moved(one), _) => self.see_move(state, rank, one),
            (Told::Deleted(_) | Told::DirGone(_), None) => (self.site.host.names_changed)(),
            _ => {}
        }
        state.view.hear(rank, told);
    }

    /// See [`Neighbours::meet`].
    pub(super) fn meet_neighbours(&self) -> Result<()> {
        self.links().map_or(Ok(()), |links| self.neighbours.meet(&links, &self.site))
    }
}

/// The state, locked.
pub(super) struct Locked<'a> {
    pub(super) state: MutexGuard<'a, State>,
    pub(super) session: &'a Session,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let told = self.state.view.take_news();
        if !told.is_empty() && !self.session.is_child() {
            self.session.neighbours.tell(&told, self.session.site.rank);
        }
    }
}
