//! `scr run`: runs an MPI program under SCR, and starts it again after a failure on the healthy
//! nodes of the allocation (`scr_run`, `scr_srun` of manual 1.1, section 11.3.1).

mod drive;
mod setup;
mod step;

use std::process::ExitCode;

use crate::base::say;

pub use setup::{Args, preload, shim};

pub fn run(args: &Args) -> ExitCode {
    match setup::Setup::new(args).and_then(drive::drive) {
        Ok(status) => ExitCode::from(status),
        Err(error) => say::fail("run", &error, 1),
    }
}
