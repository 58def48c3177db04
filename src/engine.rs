//! Where MPI meets the session: start at MPI_Init, sync points, the end inside MPI_Finalize.

use std::ffi::c_int;
use std::path::Path;
use std::sync::OnceLock;

use scr_core::comm::Comm;
use scr_core::log;
use scr_core::session::machine::SyncKind;
use scr_core::session::{Host, Preparation, Session};

use crate::mpi::{self, Classifier, MpiComm};

struct Running {
    session: Session,
    classifier: Classifier,
}

static RUNNING: OnceLock<Running> = OnceLock::new();

/// The session of this process, once [`start`] has succeeded.
pub fn session() -> Option<&'static Session> {
    RUNNING.get().map(|running| &running.session)
}

/// Right after MPI_Init: the launch check, then everything collective. `None`: this process is
/// none of our business, or this launch stays without us (then a message has said why).
pub fn start(host: Host, granted: c_int) -> Option<&'static Session> {
    if mpi::has_parent() || mpi::is_finalized() {
        return None;
    }
    let (rank, size) = (mpi::world_rank().ok()?, mpi::world_size().ok()?);
    mpi::wait_outside(&host);
    let preparation = Preparation::new(rank, size, host)?;
    match start_together(preparation, granted) {
        Ok(session) => session,
        Err(error) => {
            if rank == 0 {
                log::warn(format_args!("{error}; the program runs without SCR"));
            }
            None
        }
    }
}

fn start_together(
    preparation: Preparation,
    granted: c_int,
) -> scr_core::error::Result<Option<&'static Session>> {
    let world = MpiComm::duplicate_world()?;
    let mut any_thread = [i64::from(mpi::permits_threads(granted))];
    world.all_max(&mut any_thread)?;
    let classifier = Classifier::new(world.size(), any_thread[0] != 0);
    let Some(session) = preparation.start(Box::new(world))? else { return Ok(None) };
    let running = RUNNING.get_or_init(|| Running { session, classifier });
    mpi::at_finalize(finish)?;
    running.session.on_exit(mpi::finalize);
    running.session.halt_at_start();
    running.session.start_helper();
    running.session.serve_children();
    Ok(Some(&running.session))
}

/// The program is about to make a blocking collective call on `comm`.
pub fn sync(comm: usize, kind: SyncKind) {
    let Some(running) = RUNNING.get() else { return };
    if running.classifier.counts(comm) {
        running.session.sync(kind);
    }
}

/// The program is about to open `path` by MPI-IO, all ranks of `comm` together.
pub fn file_open(comm: usize, path: &Path) {
    let Some(running) = RUNNING.get() else { return };
    if mpi::is_shared(comm) {
        running.session.shared_open(path);
    }
}

/// Processes were added to the job.
pub fn restrict_to_world() {
    if let Some(running) = RUNNING.get() {
        running.classifier.restrict_to_world();
    }
}

/// Inside MPI_Finalize, communication still works.
fn finish() {
    if let Some(session) = session() {
        session.finish();
    }
}
