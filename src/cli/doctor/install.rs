//! The shim and the engine beside this program, and whether the shim is named in `LD_PRELOAD`.

use std::path::Path;

use scr_core::operations::doctor::Finding;
use scr_core::params::Environment;

use super::program::Command;

const SHIM: &str = "libscr_preload.so";
const ENGINE: &str = "libscr.so";

pub fn look(environment: &Environment, command: &Command) -> Vec<Finding> {
    let mut findings = Vec::new();
    let program = std::env::current_exe().unwrap_or_default();
    let lib = program.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join("lib");
    for (id, what, name) in
        [("shim-missing", "the shim", SHIM), ("engine-missing", "the engine", ENGINE)]
    {
        let path = lib.join(name);
        if !path.is_file() {
            let what = format!("{what} is not installed: there is no {}", path.display());
            findings.push(Finding::fault(id, what, "make install PREFIX=$HOME/scr"));
        }
    }
    findings.extend(preload(environment, command, &lib.join(SHIM)));
    findings
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
