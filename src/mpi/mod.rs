//! The only code that names MPI. Everything calls the `PMPI_` names: the engine's own traffic must
//! not look like the program's to profiling tools. This library is linked with no MPI: functions
//! and constants are those of the MPI that the program has brought (`library.rs`, `values.rs`).

mod communicator;
mod functions;
mod library;
mod lifecycle;
mod pending;
mod sparse;
mod trial;
mod values;
mod world;

pub use communicator::MpiComm;
pub use library::{is_initialized, refusal, version};
pub use lifecycle::{at_finalize, finalize, has_parent, is_finalized, permits_threads};
pub use world::{
    Classifier, Counted, Counts, FileCalls, WorldHerald, members, on_some_and_all, take_freed,
    world_rank, world_size,
};

use std::sync::{Arc, OnceLock};

use scr_core::error::{Error, Result};
use scr_core::session::Host;

static HOST: OnceLock<Arc<dyn Host>> = OnceLock::new();

/// Calls that wait for other ranks let the program's signal handlers run from now on.
pub fn wait_outside(host: &Arc<dyn Host>) {
    let _ = HOST.set(host.clone());
}

fn wait<T>(call: impl FnOnce() -> T) -> T {
    match HOST.get() {
        Some(host) => host.outside(call),
        None => call(),
    }
}

fn check(code: std::ffi::c_int, call: &'static str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::Comm(format!("{call} returned error {code}")))
}
