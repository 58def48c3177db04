//! The shim and the engines beside this program, and whether the shim is named in `LD_PRELOAD`.

use std::path::{Path, PathBuf};

use scr_core::operations::doctor::Finding;
use scr_core::params::Environment;

use super::program::{Command, Mpi};

/// File name of the shim.
const SHIM: &str = "libscr_preload.so";

/// Looks at them; `mpi` is that of the program, if it is known.
pub fn look(environment: &Environment, command: &Command, mpi: Option<Mpi>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let program = std::env::current_exe().unwrap_or_default();
    let lib = program.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join("lib");
    let shim = lib.join(SHIM);
    if !shim.is_file() {
        let what = format!("the shim is not installed: there is no {}", shim.display());
        findings.push(Finding::fault("shim-missing", what, "make install PREFIX=$HOME/scr"));
    }
    let engines = engines(&lib);
    let lacks = match mpi {
        Some(mpi) => !engines.iter().any(|name| name == mpi.engine()),
        None => engines.is_empty(),
    };
    if lacks {
        let place = lib.join("scr");
        let (of, make) = match mpi {
            Some(mpi) => (format!(" for {}", mpi.name()), format!("engine-{}", mpi.engine())),
            None => (String::new(), "engines".to_owned()),
        };
        let what =
            format!("the engine{of} is not installed: there is none below {}", place.display());
        let cure = format!("make {make} && make install PREFIX=$HOME/scr");
        findings.push(Finding::fault("engine-missing", what, cure));
    }
    findings.extend(preload(environment, command, &shim));
    findings
}

/// MPIs for which there is an engine.
fn engines(lib: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(lib.join("scr")).into_iter().flatten().flatten();
    let has_engine = |path: &PathBuf| path.join("libscr.so").is_file();
    let paths = entries.map(|entry| entry.path()).filter(has_engine);
    paths.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

/// Whether a run that is started from this shell has the shim.
fn preload(environment: &Environment, command: &Command, shim: &Path) -> Option<Finding> {
    let value = environment.get("LD_PRELOAD").map_or("", String::as_str);
    let mut files = value.split([' ', ':']).filter(|file| file.rsplit('/').next() == Some(SHIM));
    match files.next() {
        Some(file) if file.contains('/') && !Path::new(file).is_file() => {
            let what =
                format!("LD_PRELOAD names {file}, which is not there: the loader leaves it out");
            let cure = format!("export LD_PRELOAD={}", shim.display());
            Some(Finding::fault("preload-missing", what, cure))
        }
        Some(_) => None,
        None if command.brings_shim() => None,
        None => {
            let what = "LD_PRELOAD does not name the shim: what is started here runs without SCR";
            let line = command.line();
            let cure = format!("LD_PRELOAD={} {line}", shim.display());
            Some(match command.is_given() {
                true => Finding::fault("not-preloaded", what, cure),
                false => Finding::advice("not-preloaded", what, cure),
            })
        }
    }
}
