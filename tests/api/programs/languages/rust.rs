//! The same as fixed.f in Rust; MPI without a crate, whose handles are not needed here.

use std::ffi::c_int;
use std::fs;

use scr::{Dataset, Flags};

unsafe extern "C" {
    fn MPI_Init(count: *mut c_int, words: *mut *mut *mut u8) -> c_int;
    fn MPI_Finalize() -> c_int;
}

fn rank() -> String {
    let rank = std::env::var("OMPI_COMM_WORLD_RANK").or_else(|_| std::env::var("PMI_RANK"));
    rank.expect("the launcher says which rank this is")
}

fn say(what: &str, answer: &str) {
    print!("{}", format!("{} {what} {answer}\n", rank())); // at once: lines of ranks stay apart
}

/// What the same call returns in C.
fn code_of(result: scr::Result<()>) -> &'static str {
    if result.is_ok() { "0" } else { "1" }
}

fn write_file(dataset: &Dataset, name: &str) -> std::io::Result<()> {
    let path = dataset.route(format!("data/{name}/rank_{}", rank()))?;
    fs::write(path, format!("{name} of {}\n", rank()))
}

fn write_dataset(name: &str, flags: Flags, valid: bool) {
    let dataset = scr::output(Some(name), flags).expect("it is the time for it");
    write_file(&dataset, name).expect("it can be written");
    if !valid {
        drop(dataset); // completes it: the other ranks do not wait
        return say(name, "1");
    }
    let completed = dataset.complete(true);
    if let Err(error) = &completed {
        assert!(error.to_string().starts_with("SCR_Complete_output: "), "{error}");
    }
    say(name, code_of(completed));
}

fn main() {
    // SAFETY: null: it takes no arguments.
    unsafe { MPI_Init(std::ptr::null_mut(), std::ptr::null_mut()) };
    assert_eq!(scr::config("SCR_DEBUG=0"), Ok(None));
    assert_eq!(scr::config("SCR_DEBUG"), Ok(Some("0".into())));
    say("init", code_of(scr::init()));
    match scr::have_restart().expect("it was started") {
        Some(name) => {
            say("have", &name);
            let dataset = scr::restart().expect("one was offered");
            say("reads", dataset.name().unwrap_or_default());
            let file = dataset.route(format!("rank_{}", rank())).expect("it is there");
            say("found", fs::read_to_string(file).expect("it can be read").trim());
            say("restart", code_of(dataset.complete(true)));
        }
        None => {
            say("have", "none");
            write_dataset("one", Flags::CHECKPOINT, true);
            write_dataset("plot", Flags::OUTPUT, true);
            write_dataset("two", Flags::CHECKPOINT | Flags::OUTPUT, rank() != "1");
        }
    }
    say("end", code_of(scr::finalize()));
    // SAFETY: the last call of MPI.
    unsafe { MPI_Finalize() };
}
