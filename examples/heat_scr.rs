//! Heat on a ring; checkpoints by calls of SCR: a file a rank, called by SCR's own path while it is
//! written and read. Restart: whatever SCR has, the newest first, until one can be read.

use std::fs::{self, File};
use std::io::{self, Write as _};

use heat_common::Heat;
use scr::{Dataset, Flags};

fn write_part(heat: &Heat, dataset: &Dataset) -> io::Result<()> {
    let path = format!("ckpt/step_{}/rank_{}.dat", heat.step, heat.rank);
    let mut file = File::create(dataset.route(path)?)?;
    file.write_all(&heat.bytes())?;
    heat.pause("write");
    Ok(())
}

fn write_checkpoint(heat: &Heat) -> Result<(), scr::Error> {
    let name = format!("step_{}", heat.step);
    let dataset = scr::output(Some(&name), Flags::CHECKPOINT)?;
    let written = write_part(heat, &dataset);
    dataset.complete(written.is_ok())
}

fn read_part(heat: &mut Heat, dataset: &Dataset) -> io::Result<bool> {
    let bytes = fs::read(dataset.route(format!("rank_{}.dat", heat.rank))?)?;
    let step = dataset.name().and_then(|name| name.strip_prefix("step_")?.parse().ok());
    Ok(step.is_some_and(|step| heat.take(step, &bytes)))
}

fn restart(heat: &mut Heat) -> Result<(), scr::Error> {
    while scr::have_restart()?.is_some() {
        let dataset = scr::restart()?;
        let valid = read_part(heat, &dataset).unwrap_or(false);
        if dataset.complete(valid).is_ok() {
            return Ok(());
        }
        heat.begin_anew(); // some rank could not read it: the next older one
    }
    Ok(())
}

fn main() -> Result<(), scr::Error> {
    let universe = mpi::initialize().expect("MPI is started once");
    let mut heat = Heat::new(&universe);
    scr::init()?;
    restart(&mut heat)?;
    heat.run(|heat| {
        // If one fails, SCR has said why; the run goes on, and the one before it stays.
        let _ = write_checkpoint(heat);
        scr::should_exit().unwrap_or(false)
    });
    scr::finalize()?;
    heat.finish();
    Ok(())
}
