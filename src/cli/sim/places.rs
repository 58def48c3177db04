//! Which directories each node has for itself, and which of them the nodes share.

use std::path::{Path, PathBuf};

/// Directories that every node has for itself.
pub const PRIVATE: [&str; 2] = ["/dev/shm", "/tmp"];

/// Tells whether a node sees something else at this path than the others, unless it is shared.
pub fn is_private(path: &Path) -> bool {
    PRIVATE.iter().any(|directory| path.starts_with(directory))
}

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
