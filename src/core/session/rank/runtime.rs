//! The session of one rank: its state, and what the hooks report.
//!
//! Invariants:
//! * One lock guards the state. It is never held across communication or a wait; what a thread
//!   renames on the PFS meanwhile is noted in it (`publishing.rs`).
//! * Only [`Session::sync`], start and finish communicate.
//! * When the cache fails a rank for good, routing ends for it, with one message, and for the
//!   others when they hear of it; agreements go on, since the other ranks count on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::books::{Book, Tokens, Tracked, Way};
use super::idle::Idle;
use super::publishing::{Publishing, Shared};
use super::site::{Links, Site};
use crate::files::lease::Lease;
use crate::patterns::{Match, SeriesSet, Template};
use crate::records;
use crate::session::conference::trouble::Troubles;
use crate::session::ending::halt::Halt;
use crate::session::ending::need::Need;
use crate::session::flush::places::Places;
use crate::session::handles::children::Counter;
use crate::session::handles::loans::Loan;
use crate::session::machine::{DatasetKey, DatasetState, Deletion, FileRef, Machine};
use crate::session::names::directories::Directories;
use crate::session::names::moving::Moves;
use crate::session::namespace::{self as ns, View};
use crate::session::program::Program;
use crate::session::report::events::Events;
use crate::session::report::tally::Tally;
use crate::session::report::unprotected::Unmatched;
use crate::session::stores::setback::Setbacks;
use crate::session::updates::elsewhere::ToldElsewhere;
use crate::session::updates::loud::Hushed;
use crate::session::updates::neighbours::{Claimed, Locked, Neighbours};
use crate::system::{monotonic_ms, thread_id};
use crate::transfer::{AsyncFlush, Background};

/// Something that the shim has seen.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// The process ends without MPI_Finalize.
    Exit,
    /// After it, and all that was open is closed.
    Leave,
    /// MPI_Finalize has returned.
    Finalized,
    /// We are a forked child.
    ForkedChild,
    /// The program made this directory.
    Mkdir(&'a Path),
    /// The program is about to make something here that is no regular file.
    Make(&'a Path),
    /// The program opens for writing what lies elsewhere, because of a symbolic link in the name.
    Misled(&'a Path),
    /// The program changed mode, owner or times of this file.
    Attributes(&'a Path),
    /// This file, which it opens to read it, could not be opened in the cache.
    Unreadable(&'a Path),
}

/// Everything that changes.
pub(in crate::session) struct State {
    pub machine: Machine,
    pub view: View,
    pub books: BTreeMap<DatasetKey, Book>,
    pub tokens: Tokens,
    /// How the program names what it renames later, by series.
    pub templates: Vec<(usize, Template)>,
    /// Number of private copies made.
    pub shadows: u64,
    /// Files of which this rank has a private copy and that another one of its node writes, too;
    /// which one, if it is known.
    pub rivals: BTreeMap<String, Option<usize>>,
    /// What other ranks of the node have claimed, and not said yet what has come of it.
    pub claims: BTreeMap<(String, usize), Claimed>,
    /// Files whose reserved rest could not be given back yet.
    pub late: Vec<(DatasetKey, String)>,
    /// Files that the cache could not open: the PFS will have them as soon as the open is asked for
    /// again.
    pub kept_out: BTreeSet<String>,
    /// What children have open beside others.
    pub loans: Vec<Loan>,
    /// What other nodes know of names on this rank.
    pub told: ToldElsewhere,
    /// Directories that got their final name.
    pub moves: Moves,
    /// Checkpoints that this launch could not have, and perhaps a later one can, when their nodes
    /// are back: series and id.
    pub out_of_reach: Vec<(usize, u64)>,
    /// Why seals fail.
    pub troubles: Troubles,
    /// What threads are renaming on the PFS, without the lock.
    pub publishing: Publishing,
}

impl State {
    /// `name` belongs to `key` from now on.
    pub fn enter_file(&mut self, key: &DatasetKey, name: &str, on_prefix: bool) {
        self.books.entry(key.clone()).or_default().files.insert(name.to_string(), on_prefix);
        if on_prefix {
            // Before it is forgotten here that another node has it in cache.
            self.view.tell_on_prefix(name);
        }
        if let Some(layer) = self.view.layer_mut(key) {
            layer.drop_elsewhere(name);
            layer.set_on_prefix(name, on_prefix);
        }
        self.view.revive(name);
    }

    /// `name` no longer belongs to `key`.
    pub fn leave_file(&mut self, key: &DatasetKey, name: &str) {
        if let Some(book) = self.books.get_mut(key) {
            book.files.remove(name);
        }
        if let Some(layer) = self.view.layer_mut(key) {
            layer.set_on_prefix(name, false);
        }
    }

    /// The cached dataset that has the newest content of `name`, if another rank has written it.
    pub fn of_another(&self, name: &str) -> Option<DatasetKey> {
        let key = self.view.cached_in(name)?;
        let own = self.books.get(key).is_some_and(|book| book.files.contains_key(name));
        (!own && !self.view.is_absent(name)).then(|| key.clone())
    }

    /// The program deletes `file`, which is seen at `place`.
    pub fn deleted_at(&mut self, file: &FileRef, place: &ns::Place) -> Deletion {
        let left = *place == ns::Place::Prefix && self.machine.is_left_behind(file);
        let told = self.machine.deleted(file, monotonic_ms());
        if left { Deletion::Now } else { told }
    }
}

/// The session of one rank.
pub struct Session {
    pub(in crate::session) site: Arc<Site>,
    pub(in crate::session) series: SeriesSet,
    /// Gone after the end, or after communication has failed.
    pub(in crate::session) links: Mutex<Option<Arc<Links>>>,
    pub(in crate::session) state: Arc<Shared>,
    pub(in crate::session) routing: AtomicBool,
    pub(in crate::session) child: AtomicBool,
    pub(in crate::session) ended: AtomicBool,
    /// exit(3) was called before MPI_Finalize, which may come yet.
    pub(in crate::session) exiting: AtomicBool,
    /// In MPI_Finalize, or ending for a halt condition.
    pub(in crate::session) finishing: AtomicBool,
    pub(in crate::session) halt: Halt,
    /// In a flush of all ranks together.
    pub(in crate::session) flushing: AtomicBool,
    /// Random, the same on all ranks of this launch.
    pub(in crate::session) launch: u64,
    /// What a launch must share with the one whose cache it takes over.
    pub(in crate::session) identity: String,
    /// The flush that a restart has begun, with the dataset's id.
    pub(in crate::session) background: Mutex<Option<(u64, Background)>>,
    /// Flushes that go on while the program does.
    pub(in crate::session) flushes: Mutex<BTreeMap<u64, AsyncFlush>>,
    /// Locks, held for the life of the process.
    pub(in crate::session) _leases: Vec<Lease>,
    pub(in crate::session) tally: Tally,
    pub(in crate::session) idle: Idle,
    pub(in crate::session) setbacks: Setbacks,
    /// What the flush file says, as far as it is ours to say.
    pub(in crate::session) places: Mutex<Option<Places>>,
    pub(in crate::session) events: Events,
    pub(in crate::session) neighbours: Neighbours,
    pub(in crate::session) counter: Counter,
    pub(in crate::session) need: Mutex<Need>,
    pub(in crate::session) hushed: Hushed,
    pub(in crate::session) unmatched: Unmatched,
    pub(in crate::session) directories: Directories,
    pub(in crate::session) program: Program,
}

impl Session {
    /// The program's directory, symlinks resolved.
    pub fn prefix(&self) -> &Path {
        &self.site.prefix
    }

    /// The newest dataset of a series that is known to be complete: its id, and what `{id}` stands
    /// for.
    pub fn newest_complete(&self, series: usize) -> Option<(u64, String)> {
        let state = self.state();
        let mut all = state.machine.datasets(series).iter();
        let newest = all.rfind(|one| one.state == DatasetState::Confirmed);
        newest.map(|one| (one.id, one.key.id.clone()))
    }

    /// Whoever has it has heard what the other ranks of the node have done, and tells them what he
    /// did when he lets go.
    ///
    /// No thread gives a file its name on the PFS meanwhile: whatever is to be done there can be.
    pub(in crate::session) fn state(&self) -> Locked<'_> {
        self.state_when(|state| state.publishing.is_over())
    }

    /// The same for who changes no names: he waits for no thread.
    pub(in crate::session) fn state_to_look(&self) -> Locked<'_> {
        self.state_when(|_| true)
    }

    /// The same for who changes no others.
    pub(in crate::session) fn state_to_change(&self, names: &[&str]) -> Locked<'_> {
        self.state_when(|state| !names.iter().any(|name| state.publishing.has(name)))
    }

    /// The same as soon as threads have no more under way than is `allowed`.
    pub(in crate::session) fn state_when(&self, allowed: impl Fn(&State) -> bool) -> Locked<'_> {
        let mut state = self.state.lock_when(allowed);
        state.machine.called_by(thread_id());
        state.machine.passed(self.idle.take_passed());
        self.hear_neighbours(&mut state);
        Locked { state, session: self }
    }

    pub(in crate::session) fn links(&self) -> Option<Arc<Links>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::session) fn is_child(&self) -> bool {
        self.child.load(Ordering::Relaxed)
    }

    pub(in crate::session) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(in crate::session) fn is_exiting(&self) -> bool {
        self.exiting.load(Ordering::Relaxed)
    }

    pub(in crate::session) fn is_routing(&self) -> bool {
        self.routing.load(Ordering::Relaxed)
    }

    /// `path` relative to the prefix.
    pub(in crate::session) fn name_of<'a>(&self, path: &'a Path) -> Option<&'a str> {
        ns::relative(&self.site.prefix, path)
    }

    pub(in crate::session) fn match_name(&self, name: &str) -> Option<Match> {
        if self.program.has_claimed(name) {
            return None;
        }
        let waiting = self.waiting(name).map(|it| Match { temporary: true, ..it.matched });
        let matched = waiting.or_else(|| self.series.match_path(name));
        matched.filter(|matched| !self.hushed.has(matched))
    }

    /// The key as records have it.
    pub(in crate::session) fn record_key(&self, key: &DatasetKey) -> records::DatasetKey {
        let series = self.series.series().get(key.series);
        records::DatasetKey {
            series: series.map(|series| series.name.clone()).unwrap_or_default(),
            id: key.id.clone(),
            generation: key.generation,
        }
    }

    /// The inverse; `None` for a series that the patterns no longer have.
    pub(in crate::session) fn machine_key(&self, key: &records::DatasetKey) -> Option<DatasetKey> {
        let series = self.series.series_index(&key.series)?;
        Some(DatasetKey::new(series, key.id.clone(), key.generation))
    }

    /// The real open for `token` returned. `false`: the store cannot take the file. It is to be
    /// evacuated, or if there is no descriptor, asked for once more.
    pub fn opened(&self, token: u64, fd: i32, errno: i32) -> bool {
        if fd >= 0 { self.set_aside(token, fd) } else { !self.not_opened(token, errno) }
    }

    /// A write, truncate, fsync or close on the token's file failed.
    pub fn failed(&self, token: u64, errno: i32) {
        let mut state = self.state_to_look();
        let Some(tracked) = state.tokens.get(token).cloned() else { return };
        if matches!(tracked.way, Way::Temporary | Way::Lazy { .. }) || tracked.is_orphan() {
            // It belongs to nothing yet; the program will not rename what it could not write.
            return;
        }
        let reason = std::io::Error::from_raw_os_error(errno);
        let text = format!("writing {} failed: {reason}", tracked.name);
        state.machine.failed(&tracked.key, &text, monotonic_ms());
    }

    /// The last descriptor of `token` was closed. `false`: what it has written is lost.
    pub fn closed(&self, token: u64) -> bool {
        let being_named = |state: &State| {
            state.tokens.get(token).is_some_and(|one| state.publishing.has(&one.name))
        };
        let mut state = self.state_when(|state| !being_named(state));
        let Some(mut tracked) = state.tokens.take(token) else { return true };
        self.give_back(&mut state, &tracked);
        let kept = !tracked.distrusted || self.leave_distrusted(&mut state, &mut tracked);
        self.settle_closed(state, &tracked);
        kept
    }

    fn settle_closed(&self, mut state: Locked<'_>, tracked: &Tracked) {
        if let Way::Shadow { copy, origin, base } = &tracked.way {
            if state.tokens.shadow_of(&tracked.name).is_none() {
                self.settle_shadow(&mut state, tracked, (copy, origin, base.as_ref()));
            }
            return;
        }
        if let Way::Lazy { stamp, kept } = &tracked.way {
            let (stamp, kept) = (*stamp, kept.clone());
            self.closed_lazy(&mut state, tracked, (stamp, kept.as_deref()));
            return;
        }
        if tracked.way == Way::Temporary {
            self.closed_private(&mut state, &tracked.name);
            return;
        }
        if state.view.is_private(&tracked.name) && state.tokens.count(&tracked.name) == 0 {
            self.publish_private(&mut state, &tracked.name);
        }
        let size = self.size_of(&state, tracked);
        if tracked.way == Way::OnPrefix
            && let Some(reason) = state.machine.reason_of(&tracked.key, &tracked.name)
        {
            self.tally.passed(reason, size);
        }
        state.machine.write_closed(&tracked.key, &tracked.name, size, monotonic_ms());
        drop(state);
        if self.is_ended() || self.is_exiting() {
            self.publish_overdue();
        }
    }

    pub(in crate::session) fn size_of(&self, state: &State, tracked: &Tracked) -> u64 {
        let path = match (&tracked.way, state.view.layer(&tracked.key)) {
            (Way::Cached, Some(layer)) => layer.dir.join(&tracked.name),
            _ => self.site.on_prefix(&tracked.name),
        };
        path.metadata().map_or(0, |found| found.len())
    }

    /// Something noteworthy has happened.
    pub fn note(&self, note: Note<'_>) {
        match note {
            Note::ForkedChild => {
                self.child.store(true, Ordering::Relaxed);
                self.counter.leave_to_parent();
            }
            Note::Exit => self.exit(),
            Note::Leave => self.leave(),
            Note::Finalized => self.ended.store(true, Ordering::Relaxed),
            // Attributes are read from the files at the seal.
            Note::Attributes(_) => {}
            Note::Make(path) => self.give_way(path),
            Note::Misled(path) => self.misled(path),
            Note::Unreadable(path) => self.unreadable(path),
            Note::Mkdir(path) => {
                if let Some(name) = self.name_of(path)
                    && self.state_to_look().view.settle_dir(name)
                {
                    // The other ranks see by its time that it is there again.
                    let now = std::time::SystemTime::now();
                    let touched = std::fs::File::open(path).and_then(|dir| dir.set_modified(now));
                    drop(touched);
                }
            }
        }
    }
}
