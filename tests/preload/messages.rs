//! What goes wrong is said once, and the program runs as without us.

use std::fs;
use std::process::{Command, Output};

use crate::programs::{succeeded, text};
use crate::shim::{Place, library, program};

/// A shim of one's own to spoil: returns its library.
fn own_shim(place: &Place) -> std::path::PathBuf {
    let copy = place.cache().join("libscr_preload.so");
    fs::copy(library(), &copy).unwrap();
    copy
}

fn run(place: &Place, library: &std::path::Path, variables: &[(&str, &str)]) -> Output {
    let mut command = place.command(program("plain"));
    command.env("LD_PRELOAD", library).envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert_eq!(succeeded(&output), "plain\n");
    assert!(place.prefix().join("c_file").exists(), "the file went where the program said");
    output
}

#[test]
fn a_missing_engine_is_named() {
    let place = Place::new();
    let output = run(&place, &own_shim(&place), &[]);
    let said = text(&output.stderr);
    assert!(said.contains("/libscr.so is missing"), "{said}");
    assert!(said.ends_with(" (SCR-1202)\n"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let other_rank = run(&place, &own_shim(&place), &[("PMI_RANK", "3")]);
    assert_eq!(text(&other_rank.stderr), "", "one rank speaks for all");
}

#[test]
fn an_engine_that_is_none_is_named() {
    let place = Place::new();
    let shim = own_shim(&place);
    let engine = place.cache().join("libscr.so");
    fs::write(&engine, "not a library").unwrap();
    let said = text(&run(&place, &shim, &[]).stderr);
    assert!(said.contains("cannot be loaded") && said.lines().count() == 1, "{said}");
    fs::copy(library(), &engine).unwrap();
    let said = text(&run(&place, &shim, &[]).stderr);
    assert!(said.contains("is not an engine of SCR"), "{said}");
}

#[test]
fn an_mpi_that_the_engine_refuses_is_named() {
    let place = Place::new();
    let output = run(&place, &library(), &[("FAKE_REFUSAL", "this MPI is odd")]);
    let said = text(&output.stderr);
    assert!(said.contains("this MPI is odd. The program runs") && said.lines().count() == 1);
    assert!(said.ends_with(" (SCR-1201)\n"), "{said}");
    assert_eq!(place.events().len(), 0, "the engine was not started");
}

#[test]
fn switched_off_and_without_work_it_is_silent() {
    let place = Place::new();
    let output = run(&place, &library(), &[("SCR_ENABLE", "0")]);
    assert_eq!((text(&output.stderr).as_str(), place.events().len()), ("", 0));
    // The engine says that there is nothing to do: no more than its start is heard.
    let output = run(&place, &library(), &[("FAKE_PREFIX", "/nowhere")]);
    assert_eq!((text(&output.stderr).as_str(), place.events().len()), ("", 1));
}

#[test]
fn a_static_program_is_pointed_out_by_the_launcher() {
    let place = Place::new();
    let source = place.cache().join("static.c");
    fs::write(&source, "int main(void) { return 0; }").unwrap();
    let words = ["-static".into(), source.into_os_string()];
    let program = crate::programs::compile("cc", words, &place.cache().join("static"));
    // Any program of a launcher's name will do; another process writes it, as in `script`.
    let launcher = place.cache().join("mpirun");
    succeeded(&Command::new("cp").arg("/bin/true").arg(&launcher).output().unwrap());
    let run = |program: &std::path::Path| {
        let mut command = place.command(&launcher);
        command.args(["-n", "2"]).arg(program).env("LD_PRELOAD", library());
        let output = command.output().unwrap();
        succeeded(&output);
        text(&output.stderr)
    };
    assert!(run(&program).contains("is statically linked"), "{}", run(&program));
    assert_eq!(run("/bin/sh".as_ref()), "");
}
