//! Files that some of the ranks have open together: a communicator of ours for each. While they
//! have one open, what is written before a call by which these ranks wait for one another, and what
//! is after it, is told apart.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scr_core::error::Result;
use scr_core::session::Session;

use crate::mpi::{self, MpiComm};

struct GroupFile {
    comm: MpiComm,
    /// Of the world.
    ranks: Vec<usize>,
}

/// A place is used again when its file is closed.
static OPEN: Mutex<Vec<Option<Arc<GroupFile>>>> = Mutex::new(Vec::new());

/// How many there are, for calls that have nothing to do with them.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn all() -> MutexGuard<'static, Vec<Option<Arc<GroupFile>>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the ranks of `comm`, which have just opened a file, tell one another what they have written
/// to it; returns its number. `None`: one of them is not `willing`. Collective over `comm`.
///
/// # Errors
/// MPI's; none of them is to be told anything.
pub fn open(session: &Session, comm: usize, willing: bool) -> Result<Option<usize>> {
    let Some(own) = MpiComm::duplicate_of(comm, willing)? else { return Ok(None) };
    let file = GroupFile { comm: own, ranks: mpi::members(comm) };
    session.conference.tell_group(&file.comm, &file.ranks)?;
    let (mut all, file) = (all(), Some(Arc::new(file)));
    let place = all.iter().position(Option::is_none).unwrap_or(all.len());
    match all.get_mut(place) {
        Some(free) => *free = file,
        None => all.push(file),
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(Some(place))
}

/// Lets its ranks tell one another what they have written, before a blocking collective call on the
/// file, which `closes` it. Collective over them.
///
/// # Errors
/// One of them does not know what the others have written.
pub fn call(session: &Session, number: usize, closes: bool) -> Result<()> {
    let file = all().get(number).cloned().flatten();
    let Some(file) = file else { return Ok(()) };
    if closes {
        all()[number] = None;
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
    session.conference.tell_group(&file.comm, &file.ranks)
}

/// Does the same before a call by which all ranks of `comm` wait for one another, if they are those
/// that have a file open.
///
/// # Errors
/// As [`call`].
pub fn sync(session: &Session, comm: usize) -> Result<()> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let same = |file: &Arc<GroupFile>| file.comm.has_ranks_of(comm);
    let found = all().iter().flatten().find(|file| same(file)).cloned();
    found.map_or(Ok(()), |file| session.conference.tell_group(&file.comm, &file.ranks))
}
