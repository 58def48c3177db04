//! The first process of a node: gives it a name, memory of its own, and reaps its orphans.
//!
//! It is started in fresh namespaces by [`super::keeper`]. When it is killed, the kernel ends every
//! process of the node and frees its RAM disks: this is how a node dies.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use scr_core::error::{Error, Result};

use super::keeper::Plan;
use super::namespace::{self, Mount};
use super::state::State;

/// Directories that every node has for itself.
const PRIVATE: [&str; 2] = ["/dev/shm", "/tmp"];

/// Tells whether a node sees something else at this path than the others, unless it is shared.
pub fn is_private(path: &Path) -> bool {
    PRIVATE.iter().any(|directory| path.starts_with(directory))
}

/// Tells whether this is one of the directories that every node has for itself.
fn is_whole(path: &Path) -> bool {
    PRIVATE.iter().any(|directory| path == Path::new(directory))
}

/// Returns what the nodes share of `named` and `found`: of those found what they would not see
/// otherwise; what is below another one comes with that.
pub fn shared(named: &[PathBuf], found: &[PathBuf]) -> Vec<PathBuf> {
    let hidden = found.iter().filter(|path| is_private(path) && !is_whole(path));
    let mut all: Vec<PathBuf> = named.iter().chain(hidden).cloned().collect();
    all.sort();
    all.dedup_by(|next, first| next.starts_with(first));
    all
}

/// Where mpirun's daemons keep their session files, below the state directory; private too.
pub const SCRATCH: &str = "scratch";

/// What the nodes have for `/etc`, below the state directory; absent if it is the host's.
pub const NODE_ETC: &str = "etc";

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

/// Puts the shared directories aside while the private ones are mounted over them.
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

fn mount(what: &Mount, target: &Path) -> Result<()> {
    namespace::mount(what, target).map_err(|e| Error::io("cannot mount", target, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_what_they_would_not_see() {
        let paths = |text: &str| text.split(' ').map(PathBuf::from).collect::<Vec<_>>();
        let found = paths("/tmp/a/work /home/me /tmp/a /tmp /dev/shm/b /tmp/ab");
        assert_eq!(shared(&[], &found), paths("/dev/shm/b /tmp/a /tmp/ab"));
        assert_eq!(shared(&paths("/tmp/a/work"), &paths("/home/me")), paths("/tmp/a/work"));
    }
}
