//! The first process of a node: gives it a name, memory of its own, and reaps its orphans.
//!
//! It is started in fresh namespaces by [`super::keeper`]. When it is killed, the kernel ends every
//! process of the node and frees its RAM disks: this is how a node dies.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use scr_core::error::{Error, Result};

use super::namespace::{self, Mount};
use super::places::{NODE_ETC, PRIVATE, SCRATCH};
use super::plan::Plan;
use super::state::State;

/// Runs the node for its whole life. Its standard output says "ready" once.
pub fn live(state: &State, plan: &Plan, hostname: &str) -> Result<()> {
    namespace::block_child_signal();
    namespace::set_hostname(hostname)
        .map_err(|e| Error::io("cannot set the host name", hostname, e))?;
    mount(&Mount::Private, Path::new("/"))?;
    let kept = keep_shared(state, plan)?;
    let shm = plan.shm.as_ref().map_or(String::new(), |size| format!(",size={size}"));
    for directory in PRIVATE {
        let size = if directory == "/dev/shm" { shm.as_str() } else { "" };
        mount(&Mount::Ram(&format!("mode=1777{size}")), Path::new(directory))?;
    }
    mount(&Mount::Ram("size=64m"), &state.file(SCRATCH))?;
    for (holder, directory) in kept {
        create(&directory)?;
        mount(&Mount::Move(&holder), &directory)?;
    }
    mount(&Mount::Processes, Path::new("/proc"))?;
    let etc = state.file(NODE_ETC);
    if etc.exists() {
        mount(&Mount::Bind(&etc), Path::new("/etc"))?;
    }
    let _ = writeln!(std::io::stdout(), "ready");
    namespace::reap_for_ever(|_| {})
}

fn keep_shared(state: &State, plan: &Plan) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut kept = Vec::new();
    for (index, directory) in plan.share.iter().enumerate() {
        let holder = state.file("shared").join(index.to_string());
        create(&holder)?;
        mount(&Mount::Bind(directory), &holder)?;
        kept.push((holder, directory.clone()));
    }
    Ok(kept)
}

fn create(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(|e| Error::io("cannot create", directory, e))
}

pub fn mount(what: &Mount, target: &Path) -> Result<()> {
    namespace::mount(what, target).map_err(|e| Error::io("cannot mount", target, e))
}
