//! The launch check: are we in all ranks of this launch? (DESIGN section 4, "Launch".)
//!
//! A rank without the shim, or without a working engine, would hang our first collective. So before
//! it, and without MPI, every rank reports to its node (a file in the node's control directory),
//! one rank of the node reports them to the prefix, and when their number is the world's size,
//! rank 0 publishes the verdict "go". The verdict is one file, made by link(2): the first one
//! wins, so a rank that gives up ("stop") and a rank that goes on can never both have their way.
//!
//! ```text
//! <control>/launch.<nonce>/rank.<r>, reporter             on each node
//! <prefix>/.scr/launch/<nonce>/node.<host>                its ranks that are ready
//! <prefix>/.scr/launch/<nonce>/verdict                    "go", or "stop <reason>"
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How long rank 0 waits for all nodes.
pub const LIMIT: Duration = Duration::from_secs(10);

/// What one rank knows about its launch before any communication.
pub struct Launch {
    /// `<prefix>/.scr`.
    pub prefix_state: PathBuf,
    /// This node's control directory; it exists.
    pub control: PathBuf,
    /// Distinguishes this launch from every other one, see [`nonce`].
    pub nonce: String,
    /// Name of this node.
    pub host: String,
    /// Rank in the world.
    pub rank: usize,
    /// Ranks in the world.
    pub size: usize,
}

/// What a launch came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// We are in all ranks.
    Go,
    /// This launch stays without us.
    Stop {
        /// For a person: who is missing.
        reason: String,
        /// This rank came to the verdict. The one that tells: rank 0 may be what is missing.
        own: bool,
    },
}

/// The launch's distinguishing name: what the shim in the launcher has put into the environment, or
/// what the process manager or the batch system says. `None`: there is nothing to go by, and the
/// check is left out.
pub fn nonce(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let own = variable("SCR_LAUNCH_NONCE").or_else(|| variable("PMIX_NAMESPACE"));
    let step = || {
        let job = variable("SLURM_JOB_ID")?;
        let step = variable("SLURM_STEP_ID")?;
        let restarts = variable("SLURM_RESTART_COUNT").unwrap_or_default();
        Some(format!("{job}.{step}.{restarts}"))
    };
    let text = own.or_else(step)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = text.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    (!name.is_empty() && name.len() <= 128).then_some(name)
}

impl Launch {
    fn shared(&self) -> PathBuf {
        self.prefix_state.join("launch").join(&self.nonce)
    }

    fn local(&self) -> PathBuf {
        self.control.join(format!("launch.{}", self.nonce))
    }

    /// Waits until every rank of the launch has called this, or for `limit`. All ranks get the same
    /// verdict.
    ///
    /// # Errors
    /// The directories cannot be used.
    pub fn prove_whole(&self, limit: Duration) -> Result<Verdict> {
        let (shared, local) = (self.shared(), self.local());
        for dir in [&shared, &local] {
            fs::create_dir_all(dir)
                .map_err(|e| Error::io("cannot create the directory", dir, e))?;
        }
        let ready = local.join(format!("rank.{}", self.rank));
        fs::write(&ready, b"").map_err(|e| Error::io("cannot write", &ready, e))?;
        let reporter = claim(&local.join("reporter"))?;
        // Rank 0 decides; the others wait longer, so that it normally is the one who says stop.
        let patience = if self.rank == 0 { limit } else { limit + limit / 2 };
        let (start, mut reported, mut own) = (Instant::now(), 0, false);
        let mut pause = Duration::from_micros(500);
        loop {
            if reporter {
                reported = self.report(&local, &shared, reported)?;
            }
            if self.rank == 0 && all_ready(&nodes(&shared)?).len() == self.size {
                decide(&shared, self.rank, "go")?;
            }
            if let Some(text) = read_verdict(&shared)? {
                return Ok(match text.strip_prefix("stop ") {
                    None => Verdict::Go,
                    Some(reason) => Verdict::Stop { reason: reason.to_owned(), own },
                });
            }
            if start.elapsed() > patience {
                let reason = self.what_is_missing(&shared)?;
                own = decide(&shared, self.rank, &format!("stop {reason}"))?;
                continue;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Writes this node's ranks to the prefix if there are more; returns their number.
    fn report(&self, local: &Path, shared: &Path, reported: usize) -> Result<usize> {
        let ready = entries(local, "rank.")?;
        if ready.len() > reported {
            let temporary = shared.join(format!(".{}.{}", self.host, self.rank));
            let target = shared.join(format!("node.{}", self.host));
            fs::write(&temporary, ready.join(","))
                .and_then(|()| fs::rename(&temporary, &target))
                .map_err(|e| Error::io("cannot write", &target, e))?;
        }
        Ok(ready.len())
    }

    /// The nodes of the missing ranks are not known: nothing of ours runs there.
    fn what_is_missing(&self, shared: &Path) -> Result<String> {
        let nodes = nodes(shared)?;
        let ready = all_ready(&nodes);
        let missing: BTreeSet<usize> =
            (0..self.size).filter(|rank| !ready.contains(rank)).collect();
        let list: Vec<String> =
            nodes.iter().map(|(host, ranks)| format!("{host} ({})", ranges(ranks))).collect();
        Ok(format!(
            "only {} of {} ranks have the shim and a working engine. Missing: rank {}; ready, by \
             node: {}. See that libscr_preload.so and the engine beside it can be read on every \
             node",
            ready.len(),
            self.size,
            ranges(&missing),
            if list.is_empty() { "none".into() } else { list.join(", ") }
        ))
    }

    /// Removes the traces. To be called after the first collective: then every rank has read the
    /// verdict.
    pub fn clean_up(&self) {
        let _ = fs::remove_dir_all(self.local());
        if self.rank == 0 {
            let _ = fs::remove_dir_all(self.shared());
            let _ = fs::remove_dir(self.prefix_state.join("launch"));
        }
    }
}

/// True for the one caller that made `path`.
fn claim(path: &Path) -> Result<bool> {
    match fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(Error::io("cannot write", path, e)),
    }
}

/// Names of the entries of `dir` that begin with `start`, without it.
fn entries(dir: &Path, start: &str) -> Result<Vec<String>> {
    let names = fs::read_dir(dir).map_err(|e| Error::io("cannot list", dir, e))?;
    Ok(names
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_prefix(start).map(String::from))
        .collect())
}

/// The nodes that have reported, with their ready ranks.
fn nodes(shared: &Path) -> Result<BTreeMap<String, BTreeSet<usize>>> {
    let read = |host: String| {
        let text = fs::read_to_string(shared.join(format!("node.{host}"))).unwrap_or_default();
        (host, text.split(',').filter_map(|rank| rank.parse().ok()).collect())
    };
    Ok(entries(shared, "node.")?.into_iter().map(read).collect())
}

fn all_ready(nodes: &BTreeMap<String, BTreeSet<usize>>) -> BTreeSet<usize> {
    nodes.values().flatten().copied().collect()
}

/// "0-2,5": short for any number of neighbours.
fn ranges(ranks: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Publishes the verdict unless there is one; true if it is this one.
fn decide(shared: &Path, rank: usize, verdict: &str) -> Result<bool> {
    let temporary = shared.join(format!(".verdict.{rank}"));
    let target = shared.join("verdict");
    let write = || -> std::io::Result<bool> {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(verdict.as_bytes())?;
        file.sync_all()?;
        let published = match fs::hard_link(&temporary, &target) {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
            Err(e) => return Err(e),
        };
        fs::remove_file(&temporary)?;
        Ok(published)
    };
    write().map_err(|e| Error::io("cannot write", &target, e))
}

fn read_verdict(shared: &Path) -> Result<Option<String>> {
    let path = shared.join("verdict");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("cannot read", &path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(base: &Path, rank: usize, size: usize) -> Launch {
        let control = base.join(format!("node{}", rank / 2));
        Launch {
            prefix_state: base.join(".scr"),
            control,
            nonce: "n1".into(),
            host: format!("node{}", rank / 2),
            rank,
            size,
        }
    }

    fn run(ranks: &[usize], size: usize, limit: Duration) -> Vec<Verdict> {
        let base = tempfile::tempdir().unwrap();
        let all: Vec<_> = ranks.iter().map(|&rank| launch(base.path(), rank, size)).collect();
        std::thread::scope(|scope| {
            let each: Vec<_> =
                all.iter().map(|one| scope.spawn(move || one.prove_whole(limit))).collect();
            each.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
        })
    }

    #[test]
    fn a_whole_launch_goes() {
        let results = run(&[0, 1, 2, 3, 4], 5, Duration::from_secs(10));
        assert!(results.iter().all(|verdict| *verdict == Verdict::Go), "{results:?}");
    }

    #[test]
    fn a_launch_with_a_missing_rank_stops_everywhere_and_one_rank_tells() {
        let cases = [([0, 1, 2], "rank 3;", "node1 (2)"), ([1, 2, 3], "rank 0;", "node1 (2-3)")];
        for (ranks, missing, ready) in cases {
            let results = run(&ranks, 4, Duration::from_millis(60));
            let mut tellers = 0;
            for result in results {
                let Verdict::Stop { reason, own } = result else { panic!("{result:?}") };
                assert!(reason.contains("only 3 of 4"), "{reason}");
                assert!(reason.contains(missing) && reason.contains(ready), "{reason}");
                tellers += usize::from(own);
            }
            assert_eq!(tellers, 1, "{ranks:?}");
        }
    }

    #[test]
    fn many_ranks_are_told_in_few_words() {
        assert_eq!(ranges(&(0..1000).filter(|rank| *rank != 7).collect()), "0-6,8-999");
        assert_eq!(ranges(&BTreeSet::from([3])), "3");
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
