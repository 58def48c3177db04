//! The ranks of a node see at once what each does with names (DESIGN section 5): a log in shared
//! memory, told when the state is let go, heard when it is taken. Nobody waits for anybody.
//!
//! Who looks where a name leads, to change that, claims the name first ([`super::co_writers`]): the
//! log takes a claim only from one who has heard all, so that of two the second hears of the first
//! one and looks again. Between the claim and what it is for, a rank may be stopped; so a claim
//! says what is to be done, and who cannot go on without it does it ([`Session::honour`]).

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, OnceLock};

use crate::error::Result;
use crate::files::remove_file_if_there;
use crate::launch::site::{Links, Site};
use crate::log;
use crate::machine::DatasetState;
use crate::namespace::{Claim, Notice};
use crate::session::rank::runtime::{Session, State};
use crate::system::{Heard, SharedLog, Telling, thread_id};

/// The file's name in the control directory; it is there while the ranks start only.
const FILE: &str = "names";

/// What this rank tells and hears.
#[derive(Default)]
pub(in crate::session) struct Neighbours {
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

    /// Returns the ranks of this node, unless it has one only.
    pub fn ranks(&self) -> &[usize] {
        self.ranks.get().map_or(&[], Vec::as_slice)
    }

    fn tell(&self, told: &[Notice], rank: usize) {
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

/// What has just been heard.
#[derive(Debug, Default)]
pub(in crate::session) struct News {
    /// Files that others have made, or begun to write, and who.
    written: Vec<(String, usize)>,
    /// And more than that.
    missed: bool,
}

impl News {
    /// Tells whether another rank may have begun to write `name`.
    pub fn of(&self, name: &str) -> bool {
        self.missed || self.writer_of(name).is_some()
    }

    /// Tells which rank that is, if it is known.
    pub fn writer_of(&self, name: &str) -> Option<usize> {
        let mut writers = self.written.iter();
        writers.find(|(one, _)| one == name).map(|(_, rank)| *rank)
    }
}

/// A name that another rank of the node has claimed, until it says what has come of it.
#[derive(Debug)]
pub(in crate::session) struct Claimed {
    claim: Claim,
    /// It counts as done here: what the rank will say is known.
    honoured: bool,
    /// It has said something.
    heard: bool,
}

impl Session {
    /// Takes in what the others of the node have told since the last time.
    pub(in crate::session) fn hear_neighbours(&self, state: &mut State) -> News {
        let mut news = News::default();
        let Neighbours { log, place: heard_to, .. } = &self.neighbours;
        let Some(log) = log.get() else { return news };
        let mut place = heard_to.load(Ordering::Relaxed);
        loop {
            match log.hear(&mut place) {
                Heard::Nothing => break,
                Heard::Missed => {
                    news.missed = true;
                    state.claims.clear();
                    state.view.forget_told(self.neighbours.ranks());
                    state.machine.forget_near();
                    state.note_all_co_writers();
                    state.checksums.doubt_all();
                }
                Heard::Message(bytes) => match Notice::from_bytes(&bytes) {
                    Some((rank, told)) if rank != self.site.rank => {
                        self.listen(state, &mut news, rank, told);
                    }
                    _ => {}
                },
            }
        }
        heard_to.store(place, Ordering::Relaxed);
        news
    }

    fn listen(&self, state: &mut State, news: &mut News, rank: usize, told: Notice) {
        let of = match &told {
            Notice::Made(name) | Notice::OnPrefix(name) | Notice::Unclaimed(name) => name.clone(),
            Notice::Claimed(claim) => claim.name.clone(),
            _ => String::new(),
        };
        let of = (of, rank);
        if matches!(told, Notice::Made(_) | Notice::OnPrefix(_))
            && let Some(claimed) = state.claims.get_mut(&of)
        {
            claimed.heard = true;
            if claimed.honoured {
                return;
            }
        }
        if matches!(told, Notice::Claimed(_) | Notice::Made(_) | Notice::OnPrefix(_)) {
            state.note_co_writer(&of.0, rank);
            state.doubt(&of.0);
            news.written.push(of.clone());
        }
        match told {
            Notice::Claimed(claim) => {
                let claimed = Claimed { claim, honoured: false, heard: false };
                drop(state.claims.insert(of, claimed));
            }
            Notice::Unclaimed(_) => {
                let undone = state.claims.remove(&of).is_some_and(|claimed| !claimed.heard);
                if undone && state.co_writers.get(&of.0) == Some(&Some(rank)) {
                    state.co_writers.remove(&of.0);
                }
            }
            told => self.heed(state, rank, told),
        }
    }

    /// Tells the others that this rank is about to write a file. `false`: it has not heard all, and
    /// they have not, either.
    pub(in crate::session) fn claim(&self, claim: &Claim) -> bool {
        let Neighbours { log, place, .. } = &self.neighbours;
        let Some(log) = log.get().filter(|_| !self.is_child()) else { return true };
        let bytes = Notice::Claimed(claim.clone()).to_bytes(self.site.rank);
        // One too long waits for the agreement.
        log.tell_at(place.load(Ordering::Relaxed), &bytes) != Telling::Late
    }

    /// Takes a claim back: what has come of it is told, or it has failed.
    pub(in crate::session) fn unclaim(&self, claim: &Claim) {
        if !self.is_child() {
            self.neighbours.tell(&[Notice::Unclaimed(claim.name.clone())], self.site.rank);
        }
    }

    /// Does what others have claimed of `name` and may not have done yet: they may be stopped, and
    /// nobody waits for them. Returns the rank, if there is one.
    pub(in crate::session) fn honour(&self, state: &mut State, name: &str) -> Option<usize> {
        let all = state.claims.range_mut((name.to_string(), 0)..=(name.to_string(), usize::MAX));
        let open: Vec<_> = all
            .filter(|(_, claimed)| !claimed.honoured)
            .map(|((_, rank), claimed)| {
                claimed.honoured = true;
                (*rank, claimed.claim.clone())
            })
            .collect();
        for (rank, claim) in &open {
            if let Some((from, to)) = &claim.rename {
                // What is not there any more has its name, or was given up; else the rank will hear
                // itself of what is in the way.
                let _ = std::fs::rename(from, to);
            }
            if claim.on_prefix {
                self.heed(state, *rank, Notice::OnPrefix(name.to_string()));
            }
            self.heed(state, *rank, Notice::Made(name.to_string()));
        }
        open.last().map(|(rank, _)| *rank)
    }

    /// Tells what this rank has done.
    pub(in crate::session) fn tell_neighbours(&self, state: &mut State) {
        let told = state.view.take_news();
        if !told.is_empty() && !self.is_child() {
            self.neighbours.tell(&told, self.site.rank);
        }
    }

    fn heed(&self, state: &mut State, rank: usize, told: Notice) {
        let name = match &told {
            Notice::Deleted(name) | Notice::Made(name) => name.as_str(),
            Notice::OnPrefix(name) | Notice::DirGone(name) => name.as_str(),
            _ => "",
        };
        match (&told, self.file_ref(name)) {
            (Notice::Deleted(_), Some(file)) => state.machine.deleted_just_now(&file),
            (Notice::Made(_), Some(file)) => state.machine.made_just_now(&file),
            (Notice::OnPrefix(_), _) => {
                for file in self.file_refs(name) {
                    for key in state.machine.taken_just_now(&file) {
                        let holding = state.holdings.entry(key).or_default();
                        holding.files.insert(file.name.clone());
                    }
                }
                self.note_left(state, name);
            }
            (Notice::Moved(one), _) => self.see_move(state, rank, one),
            (Notice::Deleted(_) | Notice::DirGone(_), None) => self.site.host.names_changed(),
            _ => {}
        }
        state.view.hear(rank, told);
    }

    /// Opens the log of this launch, if the ranks can talk to one another; see
    /// [`Neighbours::meet`].
    pub(in crate::session) fn meet_neighbours(&self) -> Result<()> {
        self.links().map_or(Ok(()), |links| self.neighbours.meet(&links, &self.site))
    }

    /// Finds the newest dataset of a series that is known to be complete: its id, and what `{id}`
    /// stands for.
    pub fn newest_complete(&self, series: usize) -> Option<(u64, String)> {
        let state = self.state();
        let mut all = state.machine.datasets(series).iter();
        let newest = all.rfind(|one| one.state == DatasetState::Confirmed);
        newest.map(|one| (one.id, one.key.id.clone()))
    }

    /// Locks the state. Whoever has it has heard what the other ranks of the node have done, and
    /// tells them what he did when he lets go.
    ///
    /// No thread gives a file its name on the PFS meanwhile: whatever is to be done there can be.
    pub(in crate::session) fn state(&self) -> Locked<'_> {
        self.state_when(|state| state.publishing.is_over())
    }

    /// Locks the state for who changes no names: he waits for no thread.
    pub(in crate::session) fn state_to_look(&self) -> Locked<'_> {
        self.state_when(|_| true)
    }

    /// Locks the state for who changes no others than `names`.
    pub(in crate::session) fn state_to_change(&self, names: &[&str]) -> Locked<'_> {
        self.state_when(|state| !names.iter().any(|name| state.publishing.has(name)))
    }

    /// Locks the state as soon as threads have no more under way than is `allowed`.
    pub(in crate::session) fn state_when(&self, allowed: impl Fn(&State) -> bool) -> Locked<'_> {
        let mut state = self.state.lock_when(allowed);
        state.machine.called_by(thread_id());
        state.machine.passed(self.idle.take_passed());
        self.hear_neighbours(&mut state);
        Locked { state, session: self }
    }
}

/// The state, locked.
pub(in crate::session) struct Locked<'a> {
    pub(in crate::session) state: MutexGuard<'a, State>,
    pub(in crate::session) session: &'a Session,
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
            self.session.tell_neighbours(&mut self.state);
        }
    }
}
