//! Where MPI meets the session: start at MPI_Init, sync points, the end inside MPI_Finalize.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use scr_core::comm::Comm;
use scr_core::error::{Error, Result};
use scr_core::log::{self, messages};
use scr_core::machine::SyncKind;
use scr_core::session::{Arrival, Door, Host, Required, Session, Surroundings};
use scr_core::streams::{STREAMS, WORLD};
use scr_core::system::{block_signals, exit_at_once, make_room};

pub use crate::mpi::{refusal, version as mpi_version};

use crate::groups;
pub use crate::mpi::FileCalls;
use crate::mpi::{self, Classifier, Counts, MpiComm};

/// Other communication of the program may be pending when the run halts.
const END_LIMIT: Duration = Duration::from_secs(10);

struct Running {
    session: Session,
    classifier: Classifier,
}

static RUNNING: OnceLock<Running> = OnceLock::new();
/// A message has said why this launch goes without us.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

pub fn session() -> Option<&'static Session> {
    RUNNING.get().map(|running| &running.session)
}

/// Makes the launch check, right after MPI_Init, then starts everything collective. `None`: this
/// process is none of our business, or this launch stays without us (a message has said why).
pub fn start(host: Arc<dyn Host>) -> Option<&'static Session> {
    if mpi::has_parent() || mpi::is_finalized() {
        return None;
    }
    let (rank, size) = (mpi::world_rank().ok()?, mpi::world_size().ok()?);
    mpi::wait_outside(&host);
    let around = Surroundings::of_process(rank, size, host.clone());
    let arrival = Arrival::new(around, &mpi::WorldHerald)?;
    let required = arrival.required();
    match start_together(arrival, host) {
        Ok(session) => Some(session),
        Err(error) => {
            GIVEN_UP.store(true, Ordering::Relaxed);
            required.fall_back(&error, rank == 0);
            None
        }
    }
}

fn start_together(arrival: Arrival, host: Arc<dyn Host>) -> Result<&'static Session> {
    make_room_beside(host);
    let world = MpiComm::duplicate_world()?;
    let registered = mpi::at_finalize(finish);
    let mut words = [i64::from(mpi::permits_threads()), i64::from(registered.is_err())];
    world.all_max(&mut words)?;
    if words[1] != 0 {
        return Err(registered.err().unwrap_or_else(|| Error::Comm("MPI_COMM_SELF".into())));
    }
    let any_thread = words[0] != 0;
    let classifier = Classifier::new(world.size(), any_thread)?;
    let session = Session::start(arrival, Box::new(world))?;
    if any_thread {
        // Not when one is needed: several threads that make communicators at the same time, in
        // orders that differ between ranks, wait for one another in some MPIs.
        let own = |_| Ok(Box::new(MpiComm::duplicate_world()?) as Box<dyn Comm>);
        session.conference.serve_streams((0..STREAMS).map(own).collect::<Result<_>>()?);
    }
    let running = RUNNING.get_or_init(|| Running { session, classifier });
    running.session.ending.halt_at_start();
    running.session.start_helper();
    running.session.serve_children();
    Ok(&running.session)
}

fn make_room_beside(host: Arc<dyn Host>) {
    let body = move || {
        block_signals();
        host.enter_thread();
        make_room();
    };
    // Without the thread, the one who needs the room waits for it.
    drop(thread::Builder::new().name("scr-room".to_string()).spawn(body));
}

pub fn sync(comm: usize, kind: SyncKind) {
    let Some(Running { session, classifier }) = RUNNING.get() else { return };
    mpi::take_freed().for_each(|stream| session.conference.close_stream(stream));
    let stream = match classifier.counts(comm) {
        Counts::No => {
            if classifier.counts_groups() == (true, true) && groups::sync(session, comm).is_err() {
                session.handles.uncounted_call();
            }
            None
        }
        Counts::NoThread => {
            session.unsealed.note_passed_by();
            None
        }
        Counts::In(stream) => Some(stream),
        Counts::Unplaced => {
            let place = |on_all| session.conference.place_stream(on_all);
            // An error is one of the program's own call, too.
            classifier.place(comm, || session.conference.seek_stream(), place).ok().flatten()
        }
    };
    if let Some(stream) = stream {
        session.ending.sync(stream, kind);
    }
}

/// Tells whether collective calls on files are sync points.
pub fn counts_files() -> bool {
    RUNNING.get().is_some_and(|running| running.session.ending.counts_files())
}

/// Returns where calls are counted down that need not be told (`Conference::idle_points`), and
/// which those are. The thread that has initialised MPI calls this.
pub fn idle() -> Option<(&'static AtomicU32, mpi::Counted)> {
    let running = RUNNING.get()?;
    Some((running.session.conference.idle_points(), running.classifier.counted()))
}

/// Returns the store in which a new file of that name would lie, if in a cache.
pub fn file_open(comm: usize, path: &Path, mode: i32) -> Option<PathBuf> {
    RUNNING.get()?.session.names.shared_open(path, &mpi::members(comm), mode)
}

/// Tells what the blocking collective calls are on the file that the ranks of `comm` have tried to
/// open together. Collective if all ranks are in `comm`.
pub fn file_opened(comm: usize, opened: bool) -> FileCalls {
    let Some(Running { session, classifier }) = RUNNING.get() else { return FileCalls::OfOneRank };
    let group = session.names.opened_together();
    let calls = classifier.calls_on_files_of(
        comm,
        session.ending.counts_files(),
        || {
            if opened { session.conference.seek_stream() } else { 0 }
        },
        |on_all| session.conference.place_stream(on_all),
    );
    match calls {
        FileCalls::Counted(stream) if !session.ending.sync_opened(stream, opened) => {
            if stream != WORLD {
                session.conference.close_stream(stream);
            }
            FileCalls::Uncounted
        }
        FileCalls::Uncounted => {
            let (counts, counts_this_thread) = classifier.counts_groups();
            let wanted = group.filter(|_| counts && session.ending.counts_files());
            let willing = wanted.map(|wanted| wanted && opened && counts_this_thread);
            let file = willing.map(|willing| groups::open(session, comm, willing));
            let file = file.and_then(|opened| opened.ok().flatten());
            file.map_or(FileCalls::Uncounted, FileCalls::OfGroup)
        }
        calls => calls,
    }
}

/// Notes that those ranks make a blocking collective call on a file that have it open.
pub fn file_call(calls: FileCalls, closes: bool) {
    let Some(Running { session, .. }) = RUNNING.get() else { return };
    match calls {
        FileCalls::OfOneRank => {}
        FileCalls::Counted(stream) => {
            session.ending.sync(stream, SyncKind::Barrier);
            if closes {
                session.conference.close_stream(stream);
            }
        }
        FileCalls::OfGroup(number) if groups::call(session, number, closes).is_ok() => {}
        FileCalls::OfGroup(_) | FileCalls::Uncounted => session.handles.uncounted_call(),
    }
}

pub fn expect_others() {
    if let Some(running) = RUNNING.get() {
        running.classifier.expect_others();
    }
}

fn finish() {
    if let Some(running) = RUNNING.get() {
        running.session.ending.finish();
        running.classifier.end();
    }
}

struct Plain;

impl Host for Plain {
    fn door(&self) -> Door {
        Door::Calls
    }

    fn mpi(&self) -> String {
        mpi_version()
    }

    fn owns_process(&self) -> bool {
        true
    }

    fn end_process(&self, status: c_int) -> ! {
        end_process(status)
    }
}

/// Takes the `lines` that the program has said to SCR_Config.
pub fn around(rank: usize, size: usize, lines: &[String]) -> Surroundings {
    Surroundings {
        program: lines.to_vec(),
        ..Surroundings::of_process(rank, size, Arc::new(Plain))
    }
}

/// Joins the session of the shim, or starts one: the program has called SCR_Init on all ranks.
/// `Ok(None)`: SCR is switched off, or the shim could not start it. Of an error a message has told.
pub fn start_program(lines: &[String]) -> Result<Option<&'static Session>> {
    if let Some(session) = session() {
        return Ok(Some(session));
    }
    if let Some(text) = refusal() {
        let error = Error::Named { id: messages::MPI_UNKNOWN, text };
        let rank = usize::from(!is_first_rank());
        Required::of_process(&around(rank, 1, lines)).fall_back(&error, rank == 0);
        return Err(error);
    }
    let around = around(mpi::world_rank()?, mpi::world_size()?, lines);
    let speaks = around.rank == 0;
    let host = around.host.clone();
    mpi::wait_outside(&host);
    let given_up = GIVEN_UP.load(Ordering::Relaxed);
    let arrival = Arrival::new(around, &mpi::WorldHerald).filter(|_| !given_up);
    // A rank that goes without us would leave the others waiting.
    let (some_out, all_out) = mpi::on_some_and_all(arrival.is_none())?;
    if some_out && !all_out && speaks {
        log::warn(
            messages::SWITCHED_OFF_ON_SOME,
            "SCR is switched off on some ranks (SCR_ENABLE=0), and so on all: their environments \
             differ, or what they say to SCR_Config",
        );
    }
    let Some(arrival) = arrival.filter(|_| !some_out) else { return Ok(None) };
    let required = arrival.required();
    match start_together(arrival, host) {
        Ok(session) => Ok(Some(session)),
        Err(error) => {
            required.fall_back(&error, speaks);
            Err(error)
        }
    }
}

pub fn is_mpi_running() -> bool {
    mpi::is_initialized() && !mpi::is_finalized()
}

/// Returns true for everybody before MPI runs.
pub fn is_first_rank() -> bool {
    if refusal().is_some() {
        // Nothing can be asked of that MPI; its launcher has told the rank.
        let told = ["PMIX_RANK", "PMI_RANK"].iter().find_map(|name| std::env::var(name).ok());
        return told.is_none_or(|rank| rank == "0");
    }
    !is_mpi_running() || mpi::world_rank().is_ok_and(|rank| rank == 0)
}

/// Ends MPI if that can be done in time: the launcher is to see a program that has ended by itself.
/// Every rank does the same.
pub fn end_process(status: c_int) -> ! {
    let late = move || {
        thread::sleep(END_LIMIT);
        exit_at_once(status)
    };
    // Without the thread a program with pending communication may hang in MPI's end.
    if thread::Builder::new().name("scr-end".into()).spawn(late).is_ok() {
        mpi::finalize();
    }
    std::process::exit(status)
}
