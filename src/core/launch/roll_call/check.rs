//! The launch check: are we in all ranks of this launch? (docs/internals/launch.md has the rules.)
//!
//! A rank without the shim, or without a working engine, would hang our first collective. So before
//! it every rank reports to its node (a file in the node's control directory), one rank of the node
//! reports them to the prefix, and when their number is the world's size, rank 0 says "go". It says
//! so by MPI, from rank to rank: all of them listen by then, and whoever can hear it can take part
//! in the collective that follows, whatever has become of its files. Any rank may say "stop", by
//! files, since ranks without us may be in the world.
//!
//! Both at once cannot be: who has made the file `verdict` has decided, rank 0 for "go", any other
//! for "stop". Making a file that is not there is atomic on every file system; what is in it is the
//! reason only, and a reader that finds half of it has lost nothing but words.
//!
//! ```text
//! <control>/launch.<nonce>/rank.<r>, reporter, left.<r>   on each node
//! <control>/launch.<nonce>/stop                           why, as the reporter has read it
//! <prefix>/.scr/launch/<nonce>/node.<host>.<r>            ranks that are ready, as <r> reports
//! <prefix>/.scr/launch/<nonce>/missing.<host>             its ranks that cannot take part, and why
//! <prefix>/.scr/launch/<nonce>/verdict                    "go", or "stop <reason>"
//! <prefix>/.scr/launch/<nonce>/left.<host>                its ranks have all read "stop"
//! ```
//! `missing.<host>` is written by ranks whose settings cannot be used, or whose reports fail, and
//! by the shim where there is no engine (`preload/src/engine/absence.rs`): nothing else of ours
//! runs there, if that. A rank that cannot use its node's directory reports itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::census::{all_ready, entries, excuses, nodes, ranges, whereabouts};
use super::check_files::write_at_once;
use crate::error::Result;
use crate::files::write_ours;

/// How long rank 0 waits for all nodes. Others wait a little longer for it, and all have ended
/// before one and a half times this.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Age from which on the traces of a launch are swept; that launch is over or has its verdict.
const STALE: Duration = Duration::from_secs(3600);

/// Variables in which launchers tell how many ranks a node has.
const NODE_SIZES: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];

pub struct Launch {
    pub prefix_state: PathBuf,
    /// This node's control directory, if this rank can use it; it exists.
    pub control: Option<PathBuf>,
    /// Distinguishes this launch from every other one, see [`nonce()`](super::nonce::nonce).
    pub nonce: String,
    pub host: String,
    pub rank: usize,
    pub size: usize,
    pub node_size: Option<usize>,
    pub handed_on: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum LaunchVerdict {
    Go,
    Stop {
        reason: String,
        /// This rank came to the verdict. The one that tells: rank 0 may be what is missing.
        own: bool,
    },
}

/// Counts the ranks that the launcher has started on this node, with the shim or without.
pub fn node_size(variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    NODE_SIZES.iter().find_map(|name| variable(name)?.parse().ok())
}

/// Returns what to add to the command line of the launcher that has started this rank, so that all
/// ranks get the shim and our variables. The launcher is known by what it gives to ranks; Slurm's
/// and a batch system's may be around another one.
pub fn handed_on(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    const WAYS: [(&str, &str); 4] = [
        ("OMPI_COMM_WORLD_RANK", "to mpirun: -x LD_PRELOAD, and -x NAME for each SCR_ variable"),
        ("PALS_RANKID", "to mpiexec: --envall"),
        ("MPI_LOCALNRANKS", "to mpiexec: -genvall"),
        ("SLURM_PROCID", "to srun: --export=ALL"),
    ];
    WAYS.iter().find(|(name, _)| variable(name).is_some()).map(|(_, way)| *way)
}

impl Launch {
    pub(crate) fn shared(&self) -> PathBuf {
        self.prefix_state.join("launch").join(&self.nonce)
    }

    pub(crate) fn local(&self) -> Option<PathBuf> {
        self.control.as_ref().map(|control| control.join(format!("launch.{}", self.nonce)))
    }

    /// Stretches a time limit for all but rank 0, which decides; the others wait longer, so that it
    /// normally is the one who says stop. Not so long that a start could take more than 15 s
    /// ([`LIMIT`], this and [`Wait`](super::verdict::Wait)'s own part).
    pub(crate) fn later(&self, time: Duration) -> Duration {
        if self.rank == 0 { time } else { time + time / 5 }
    }

    pub(crate) fn write_report(&self, shared: &Path, ready: &[String]) -> Result<()> {
        let target = shared.join(format!("node.{}.{}", self.host, self.rank));
        let size = self.node_size.map_or_else(String::new, |size| format!(" of {size}"));
        write_at_once(&target, self.rank, &format!("{}{size}", ready.join(",")))
    }

    pub(crate) fn what_is_missing(&self, shared: &Path) -> Result<String> {
        let nodes = nodes(shared)?;
        let ready = all_ready(&nodes);
        let missing = (0..self.size).filter(|rank| !ready.contains(rank)).collect();
        let absent = whereabouts(missing, &nodes, &excuses(shared)?);
        if absent.is_empty() {
            return Ok(format!(
                "all {} ranks have the shim and a working engine, but rank 0 has not found that \
                 in time: see that its node can read and write {}",
                self.size,
                shared.display()
            ));
        }
        let list: Vec<String> =
            nodes.iter().map(|(host, node)| format!("{host} ({})", ranges(&node.ready))).collect();
        let add = self.handed_on.map_or_else(String::new, |way| format!(", or add {way}"));
        Ok(format!(
            "only {} of {} ranks have the shim and a working engine. Missing: {absent}; ready, by \
             node: {}. See that libscr_preload.so, the engine beside it and SCR's settings can be \
             read on every node{add}",
            ready.len(),
            self.size,
            if list.is_empty() { "none".into() } else { list.join(", ") }
        ))
    }

    /// Leaves the launch. Whoever is the last one removes the traces.
    pub(crate) fn leave(&self, alone: bool) {
        let shared = self.shared();
        let count = |dir: &Path, start| entries(dir, start).map_or(0, |names| names.len());
        let mut left = format!("left.{}", self.host);
        if let Some(local) = self.local().filter(|_| !alone) {
            let _ = write_ours(&local.join(format!("left.{}", self.rank)), b"");
            if count(&local, "left.") < count(&local, "rank.") {
                return;
            }
            let _ = fs::remove_dir_all(&local);
        } else {
            left.push_str(&format!(".{}", self.rank));
        }
        let _ = write_ours(&shared.join(left), b"");
        if count(&shared, "left.") >= count(&shared, "node.") {
            self.remove_shared();
        }
    }

    fn remove_shared(&self) {
        let _ = fs::remove_dir_all(self.shared());
        let _ = fs::remove_dir(self.prefix_state.join("launch"));
    }

    /// Removes the traces. To be called after the first collective: all have read the verdict.
    pub fn clean_up(&self) {
        if let Some(local) = self.local() {
            let _ = fs::remove_dir_all(local);
        }
        if self.rank == 0 {
            // Launches that did not come so far.
            sweep(&self.prefix_state.join("launch"), "");
            self.control.iter().for_each(|control| sweep(control, "launch."));
            self.remove_shared();
        }
    }
}

fn sweep(dir: &Path, start: &str) {
    for name in entries(dir, start).unwrap_or_default() {
        let path = dir.join(format!("{start}{name}"));
        let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_dir);
        let age = found.and_then(|found| found.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > STALE) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::launch::roll_call::nonce::nonce;

    #[test]
    fn what_an_earlier_launch_left_is_swept() {
        let base = tempfile::tempdir().unwrap();
        let one = Launch {
            prefix_state: base.path().join(".scr"),
            control: None,
            nonce: "n1".into(),
            host: "node0".into(),
            rank: 0,
            size: 1,
            node_size: None,
            handed_on: handed_on(|name| (name == "SLURM_PROCID").then(String::new)),
        };
        let (old, new) = (one.prefix_state.join("launch/old"), one.prefix_state.join("launch/new"));
        for dir in [&old, &new] {
            fs::create_dir_all(dir).unwrap();
        }
        let before = std::time::SystemTime::now() - 2 * STALE;
        fs::File::open(&old).unwrap().set_modified(before).unwrap();
        one.clean_up();
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn where_all_are_ready_nobody_is_missing() {
        let base = tempfile::tempdir().unwrap();
        let one = |rank| Launch {
            prefix_state: base.path().join(".scr"),
            control: None,
            nonce: "n1".into(),
            host: "node0".into(),
            rank,
            size: 2,
            node_size: None,
            handed_on: handed_on(|name| (name == "SLURM_PROCID").then(String::new)),
        };
        let shared = one(0).shared();
        fs::create_dir_all(&shared).unwrap();
        one(0).write_report(&shared, &["0".into()]).unwrap();
        assert!(one(0).what_is_missing(&shared).unwrap().contains("Missing: rank 1; ready"));
        let why = one(0).what_is_missing(&shared).unwrap();
        assert!(why.ends_with("on every node, or add to srun: --export=ALL"), "{why}");
        one(1).write_report(&shared, &["1".into()]).unwrap();
        let why = one(1).what_is_missing(&shared).unwrap();
        assert!(why.contains("rank 0 has not found") && !why.contains("Missing"), "{why}");
    }

    #[test]
    fn many_ranks_are_told_in_few_words() {
        assert_eq!(ranges(&(0..1000).filter(|rank| *rank != 7).collect()), "0-6,8-999");
        assert_eq!(ranges(&BTreeSet::from([3])), "3");
    }

    #[test]
    fn a_launcher_within_a_batch_system_is_the_one_that_is_told() {
        let seen = |names: &'static [&str]| {
            handed_on(|name| names.contains(&name).then(String::new)).unwrap_or_default()
        };
        assert!(seen(&["SLURM_PROCID", "OMPI_COMM_WORLD_RANK"]).contains("-x LD_PRELOAD"));
        assert!(seen(&["SLURM_PROCID", "MPI_LOCALNRANKS"]).contains("-genvall"));
        assert_eq!(seen(&["PMI_RANK"]), "");
    }

    #[test]
    fn the_nonce_comes_from_the_launcher_else_from_the_process_manager() {
        let set = |names: &'static [(&str, &str)]| {
            nonce(|name| names.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
        };
        assert_eq!(set(&[]), None);
        assert_eq!(set(&[("PMIX_NAMESPACE", "7.1"), ("SCR_LAUNCH_NONCE", "a/b")]).unwrap(), "a_b");
        assert_eq!(set(&[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "1")]).unwrap(), "7.1.");
    }
}
