//! MPI entry points, with the real MPIs: each call of the program is seen exactly once, in every
//! language, whatever the library does inside and whoever else is preloaded.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::programs::{compile, succeeded};
use crate::shim::{FLAVOURS, Place, library, sources};

/// Compiles a program of `programs/` with one MPI's compiler.
fn build(place: &Place, compiler: &str, flavour: &str, source: &str) -> PathBuf {
    let output = place.cache().join(format!("{source}.{flavour}"));
    compile(&format!("{compiler}.{flavour}"), [sources().join(source)], &output)
}

fn run(place: &Place, program: &std::path::Path, preload: &str) -> String {
    let mut command = place.command(program);
    command.env("LD_PRELOAD", preload).env("OMPI_MCA_btl_base_warn_component_unused", "0");
    succeeded(&command.output().unwrap())
}

/// Counts of the engine's log: starts, collectives with barriers, constructors, ends.
fn counts(place: &Place) -> [usize; 4] {
    let events = place.events();
    let count = |head: &str| events.iter().filter(|line| line.starts_with(head)).count();
    let collectives = count("sync - 0") + count("sync - 2");
    [count("init "), collectives, count("sync - 1"), count("note - 6")]
}

#[test]
fn each_collective_counts_once_and_mpi_io_does_not() {
    for flavour in FLAVOURS {
        let place = Place::new();
        let program = build(&place, "mpicc", flavour, "collectives.c");
        run(&place, &program, library().to_str().unwrap());
        assert_eq!(counts(&place), [1, 9, 6, 1], "{flavour}");
        assert_eq!(place.events_of("file_open"), ["file_open shared 1"], "{flavour}");
    }
}

#[test]
fn calls_with_large_counts_are_the_same_calls() {
    // This Open MPI has none of them: the shim makes the others.
    for (flavour, alone, words) in
        [("openmpi", "none\n", &["too many"][..]), ("mpich", "all\n", &[])]
    {
        let place = Place::new();
        let program = build(&place, "mpicc", flavour, "large.c");
        let mut command = place.command(&program);
        assert_eq!(succeeded(&command.output().unwrap()), alone, "{flavour}");
        let shared = command.args(words).env("LD_PRELOAD", library()).output().unwrap();
        assert_eq!(succeeded(&shared), "all\n", "{flavour}");
        assert_eq!(counts(&place), [1, 9, 0, 1], "{flavour}");
        let written = std::fs::read(place.prefix().join("shared")).unwrap();
        assert_eq!(written, 41_i32.to_ne_bytes(), "{flavour}");
    }
}

#[test]
fn what_carries_nothing_is_counted_and_not_told() {
    // MPICH's handle of the world is the same in every process.
    for (points, world, told) in
        [("4", "1140850688", 5), ("4", "1140850689", 9), ("0", "1140850688", 9)]
    {
        let place = Place::new();
        let program = build(&place, "mpicc", "mpich", "collectives.c");
        let mut command = place.command(&program);
        command.env("LD_PRELOAD", library()).env("FAKE_IDLE", points).env("FAKE_WORLD", world);
        succeeded(&command.output().unwrap());
        assert_eq!(counts(&place), [1, told, 6, 1], "{points} {world}");
    }
}

#[test]
fn both_fortran_bindings_count_once() {
    for flavour in FLAVOURS {
        for source in ["mpif.f90", "f08.f90"] {
            let place = Place::new();
            let program = build(&place, "mpif90", flavour, source);
            run(&place, &program, library().to_str().unwrap());
            assert_eq!(counts(&place), [1, 2, 1, 1], "{flavour} {source}");
            let _ = std::fs::remove_file(place.log());
            let mut command = place.preloaded(&program);
            command.env("FAKE_ALL_OPEN", "1").env("FAKE_HINTS", "1");
            succeeded(&command.output().unwrap());
            assert_eq!(counts(&place), [1, 5, 1, 1], "{flavour} {source}, all have the file open");
        }
    }
}

/// Those are sync points on a file that all ranks have open, and on no other.
#[test]
fn blocking_collective_calls_on_a_file_of_all_ranks_count() {
    for (flavour, io) in [("openmpi", "ompio"), ("openmpi", "romio321"), ("mpich", "")] {
        for (all_open, expected) in [(true, 14), (false, 0)] {
            let place = Place::new();
            let program = build(&place, "mpicc", flavour, "file_calls.c");
            let mut command = place.preloaded(&program);
            command.env("OMPI_MCA_btl_base_warn_component_unused", "0").env("OMPI_MCA_io", io);
            if io == "romio321" {
                command.arg("no iwrite_all");
            }
            if all_open {
                command.env("FAKE_ALL_OPEN", "1");
            }
            succeeded(&command.output().unwrap());
            assert_eq!(counts(&place), [1, expected, 0, 1], "{flavour} {io} {all_open}");
            let opened = place.events_of("file_opened");
            assert_eq!(opened, ["file_opened - 1", "file_opened - 0"], "{flavour} {io}");
            // What MPI-IO makes for itself the engine has not seen, and is not to see go.
            let removed = place.events_of("unlink");
            assert!(!removed.iter().any(|line| line.contains("locktest")), "{io}: {removed:?}");
        }
    }
}

/// The program's own Info stays what it is.
#[test]
fn mpi_io_is_told_who_is_to_write() {
    for (flavour, io) in [("openmpi", "ompio"), ("openmpi", "romio321"), ("mpich", "")] {
        let place = Place::new();
        let program = build(&place, "mpicc", flavour, "hints.c");
        let said = |hints: &str| {
            let mut command = place.preloaded(&program);
            command.env("OMPI_MCA_btl_base_warn_component_unused", "0").env("OMPI_MCA_io", io);
            succeeded(&command.env("FAKE_HINTS", hints).output().unwrap())
        };
        // MPICH has no more writers than there are ranks.
        let nodes = if flavour == "mpich" { 1 } else { 4 };
        let told = |words: &str| format!("{words} 65536\n{words} -\n2\n");
        assert_eq!(said("1"), told("disable disable 1"), "{flavour} {io}");
        assert_eq!(said("1026"), told(&format!("enable disable {nodes}")), "{flavour} {io}");
        assert!(said("0").contains(" enable "), "{flavour} {io}");
    }
}

/// MPI-IO chooses how it writes by the kind of file system, and asks before the file is there.
#[test]
fn a_file_that_mpi_io_is_about_to_make_lies_where_it_will() {
    let place = Place::new();
    let program = crate::shim::program("file_system");
    let kinds = |store: Option<&str>| {
        let mut command = place.preloaded(&program);
        if let Some(store) = store {
            command.env("FAKE_STORE", store);
        }
        let said = succeeded(&command.output().unwrap());
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = kinds(None);
    let [seen, own] = [0, 1].map(|at| plain[0].split(' ').nth(at).unwrap().to_owned());
    assert_eq!((plain.len(), &seen), (2, &own), "{plain:?}");
    assert_eq!(kinds(Some("/proc")), vec![format!("9fa0 {own}"); 2]);
}

/// A profiling tool's library.
fn build_tool(place: &Place, flavour: &str) -> String {
    let tool = place.cache().join("tool.so");
    let source = sources().join("pmpi_tool.c").into_os_string();
    let words: [OsString; 3] = ["-shared".into(), "-fPIC".into(), source];
    compile(&format!("mpicc.{flavour}"), words, &tool);
    tool.to_str().unwrap().to_owned()
}

#[test]
fn an_abort_ends_the_job_as_without_us() {
    for flavour in FLAVOURS {
        let place = Place::new();
        let program = build(&place, "mpicc", flavour, "abort.c");
        let (tool, own, aborts) =
            (build_tool(&place, flavour), library(), place.cache().join("aborts"));
        let own = own.to_str().unwrap();
        for name in [&[][..], &["PMPI"]] {
            let run = |preload: &str| {
                let _ = std::fs::remove_file(&aborts);
                let mut command = place.command(format!("mpirun.{flavour}"));
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("TOOL_ABORTS", &aborts);
                command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").args(["-n", "2"]);
                command.args(["env", &format!("LD_PRELOAD={preload}")]).arg(&program).args(name);
                let status = command.output().unwrap().status.code();
                (status, std::fs::read_to_string(&aborts).unwrap_or_default())
            };
            let want = run(&tool);
            assert_eq!(want.1, if name.is_empty() { "abort 7\n" } else { "" }, "{flavour}");
            for preload in [format!("{tool}:{own}"), format!("{own}:{tool}")] {
                let _ = std::fs::remove_file(place.log());
                assert_eq!(run(&preload), want, "{flavour} {preload} {name:?}");
                // Nothing was agreed on but at the barrier of each of the two ranks.
                assert_eq!(counts(&place)[..3], [2, 2, 0], "{flavour} {preload} {name:?}");
            }
        }
    }
}

#[test]
fn a_tool_before_or_behind_us_sees_each_call_once_and_so_do_we() {
    for flavour in FLAVOURS {
        let place = Place::new();
        let program = build(&place, "mpicc", flavour, "collectives.c");
        let (tool, own) = (build_tool(&place, flavour), library());
        let own = own.to_str().unwrap();
        for preload in [format!("{tool}:{own}"), format!("{own}:{tool}")] {
            let _ = std::fs::remove_file(place.log());
            let out = run(&place, &program, &preload);
            assert_eq!(out, "tool: 1 1 1\n", "{flavour} {preload}");
            assert_eq!(counts(&place), [1, 9, 6, 1], "{flavour} {preload}");
        }
    }
}

#[test]
fn an_mpi_that_was_loaded_privately_is_found() {
    // mpi4py loads the MPI library for itself alone: RTLD_NEXT does not see it.
    let place = Place::new();
    let mut command = place.preloaded("/usr/bin/python3");
    let script = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); open('c_x', 'w').write('1')";
    succeeded(&command.args(["-c", script]).output().unwrap());
    let [starts, collectives, _, ends] = counts(&place);
    assert_eq!((starts, collectives, ends), (1, 1, 1));
    assert!(place.cache().join("c_x").exists());
}
