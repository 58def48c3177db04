//! Heat on a ring; the checkpoints of heat_posix.c, by std::fs: a file a rank in a directory a
//! step, and a header that rank 0 keeps open while it writes its own file. Restart: rank 0 lists
//! `ckpt`.

use std::fs::{self, File};
use std::io::{self, Write as _};

use heat_common::Heat;
use mpi::collective::SystemOperation;
use mpi::traits::*;

fn write_checkpoint(heat: &Heat) -> io::Result<()> {
    let dir = format!("ckpt/step_{}", heat.step);
    if heat.rank == 0 {
        fs::create_dir_all(&dir)?;
    }
    heat.world.barrier();
    let header = (heat.rank == 0).then(|| File::create(format!("{dir}/header"))).transpose()?;
    let mut file = File::create(format!("{dir}/rank_{}.dat", heat.rank))?;
    let bytes = heat.bytes();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    file.write_all(first)?;
    heat.pause("write");
    file.write_all(second)?;
    drop(file);
    match header {
        Some(mut header) => writeln!(header, "{} {}", heat.step, heat.size),
        None => Ok(()),
    }
}

fn read_part(heat: &mut Heat, step: i32) -> bool {
    let bytes = fs::read(format!("ckpt/step_{step}/rank_{}.dat", heat.rank));
    bytes.is_ok_and(|bytes| heat.take(step, &bytes))
}

/// Largest step below `below` with a header that is complete.
fn newest_step(below: i32) -> i32 {
    let steps = fs::read_dir("ckpt").into_iter().flatten().filter_map(|entry| {
        let step = entry.ok()?.file_name().to_str()?.strip_prefix("step_")?.parse().ok()?;
        let header = fs::read_to_string(format!("ckpt/step_{step}/header")).ok()?;
        let written: i32 = header.split_once(' ')?.0.parse().ok()?;
        (written == step && step < below).then_some(step)
    });
    steps.max().unwrap_or(0)
}

fn restart(heat: &mut Heat) {
    let mut step = i32::MAX;
    while step > 0 {
        if heat.rank == 0 {
            let told = heat.from.filter(|_| step == i32::MAX);
            step = told.unwrap_or_else(|| newest_step(step));
        }
        heat.world.process_at_rank(0).broadcast_into(&mut step);
        if step == 0 {
            return;
        }
        let mine = i32::from(read_part(heat, step));
        let mut all = 0;
        heat.world.all_reduce_into(&mine, &mut all, SystemOperation::min());
        if all == 1 {
            return;
        }
        heat.begin_anew(); // incomplete: the next older one
    }
}

fn main() {
    let universe = mpi::initialize().expect("MPI is started once");
    let mut heat = Heat::new(&universe);
    restart(&mut heat);
    heat.run(|heat| {
        if let Err(error) = write_checkpoint(heat) {
            heat.fail(format!("cannot write the checkpoint of step {}: {error}", heat.step));
        }
        false
    });
    heat.finish();
}
