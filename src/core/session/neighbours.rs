//! The ranks of a node see at once what each does with names (DESIGN section 5): a log in shared
//! memory, told when the state is let go, heard when it is taken.
//!
//! They tell in turns: who has his turn has heard all, and nobody tells anything before it is over.
//! So he can look where a name leads and change that ([`super::rivals`]).

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, OnceLock};

use super::namespace::Told;
use super::runtime::{Session, State};
use super::site::{Links, Site};
use crate::error::Result;
use crate::files::remove_file_if_there;
use crate::log;
use crate::system::{Heard, SharedLog, raise, unlock, wait_lock};

/// The file's name in the control directory; it is there while the ranks start only.
const FILE: &str = "names";

/// What this rank tells and hears.
#[derive(Default)]
pub(super) struct Neighbours {
    log: OnceLock<SharedLog>,
    /// A descriptor of this rank's own on the log's file, for its lock.
    turns: OnceLock<File>,
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
        let turns = if log.is_some() { open_turns(&path) } else { None };
        let mut missing = [i64::from(turns.is_none())];
        links.node.all_max(&mut missing)?;
        if site.leads_node {
            let _ = remove_file_if_there(&path); // the next start does it
        }
        let _ = self.ranks.set(links.node_ranks.clone());
        match log.zip(turns).filter(|_| missing == [0]) {
            Some((log, turns)) => drop((self.log.set(log), self.turns.set(turns))),
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

/// `None` as well if the file system has no locks.
fn open_turns(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    let file = File::from(raise(OwnedFd::from(file)));
    wait_lock(&file).ok()?;
    unlock(&file);
    Some(file)
}

/// What has just been heard.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Files that others have made, or begun to write, and who.
    written: Vec<(String, usize)>,
    /// And more than that.
    missed: bool,
}

impl News {
    /// Whether another rank may have begun to write `name`.
    pub fn of(&self, name: &str) -> bool {
        self.missed || self.writer_of(name).is_some()
    }

    /// Which one, if it is known.
    pub fn writer_of(&self, name: &str) -> Option<usize> {
        let mut writers = self.written.iter();
        writers.find(|(one, _)| one == name).map(|(_, rank)| *rank)
    }
}

/// This rank's turn, until it is dropped.
pub(super) struct Turn<'a>(Option<&'a File>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|file| unlock(file));
    }
}

impl Session {
    /// Waits for this rank's turn: for what the others do between a look at where a name leads and
    /// their word about it, a few calls on local files. Whoever has it must hear before he looks,
    /// and tell what he did. With the state locked, and not twice.
    pub(super) fn turn(&self) -> Turn<'_> {
        let turns = self.neighbours.turns.get().filter(|_| !self.is_child());
        Turn(turns.filter(|file| wait_lock(file).is_ok()))
    }

    /// Takes in what the others of the node have told since the last time.
    pub(super) fn hear_neighbours(&self, state: &mut State) -> News {
        let mut news = News::default();
        let Neighbours { log, place: heard_to, .. } = &self.neighbours;
        let Some(log) = log.get() else { return news };
        let mut place = heard_to.load(Ordering::Relaxed);
        if log.now() == place {
            return news;
        }
        loop {
            match log.hear(&mut place) {
                Heard::Nothing => break,
                Heard::Missed => {
                    news.missed = true;
                    state.view.forget_told(self.neighbours.ranks());
                    state.machine.forget_near();
                    state.note_all_rivals();
                }
                Heard::Message(bytes) => match Told::from_bytes(&bytes) {
                    Some((rank, told)) if rank != self.site.rank => {
                        if let Told::Made(name) | Told::OnPrefix(name) = &told {
                            news.written.push((name.clone(), rank));
                            state.note_rival(name, rank);
                        }
                        self.heed(state, rank, told);
                    }
                    _ => {}
                },
            }
        }
        heard_to.store(place, Ordering::Relaxed);
        news
    }

    /// Tells what this rank has done. In its turn.
    pub(super) fn tell_neighbours(&self, state: &mut State) {
        let told = state.view.take_news();
        if !told.is_empty() && !self.is_child() {
            self.neighbours.tell(&told, self.site.rank);
        }
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
            (Told::Deleted(_) | Told::DirGone(_), None) => self.site.host.names_changed(),
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
        if self.state.view.has_news() {
            let _turn = self.session.turn();
            self.session.tell_neighbours(&mut self.state);
        }
    }
}
