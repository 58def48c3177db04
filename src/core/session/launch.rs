//! The launch check: are we in all ranks of this launch? (DESIGN section 4, "Launch".)
//!
//! A rank without the shim, or without a working engine, would hang our first collective. So before
//! it, and without MPI, every rank reports to its node (a file in the node's control directory),
//! one rank of the node reports the count to the prefix, and when the counts add up to the world
//! size, rank 0 publishes the verdict "go". The verdict is one file, made by link(2): the first one
//! wins, so a rank that gives up ("stop") and a rank that goes on can never both have their way.
//!
//! ```text
//! <control>/launch.<nonce>/rank.<r>, reporter             on each node
//! <prefix>/.scr/launch/<nonce>/node.<host>                its count of ready ranks
//! <prefix>/.scr/launch/<nonce>/verdict                    "go", or "stop <reason>"
//! ```

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

    /// Waits until every rank of the launch has called this. `Err` carries the reason why this
    /// launch stays without us; all ranks get the same verdict.
    ///
    /// # Errors
    /// Ranks are missing after `limit`, or the directories cannot be used.
    pub fn prove_whole(&self, limit: Duration) -> Result<()> {
        let (shared, local) = (self.shared(), self.local());
        for dir in [&shared, &local] {
            fs::create_dir_all(dir)
                .map_err(|e| Error::io("cannot create the directory", dir, e))?;
        }
        let own = local.join(format!("rank.{}", self.rank));
        fs::write(&own, b"").map_err(|e| Error::io("cannot write", &own, e))?;
        let reporter = claim(&local.join("reporter"))?;
        // Rank 0 decides; the others wait longer, so that it normally is the one who says stop.
        let patience = if self.rank == 0 { limit } else { limit + limit / 2 };
        let (start, mut reported) = (Instant::now(), 0);
        let mut pause = Duration::from_micros(500);
        loop {
            if reporter {
                reported = self.report(&local, &shared, reported)?;
            }
            if self.rank == 0 && counted(&shared)?.0 == self.size {
                decide(&shared, self.rank, "go")?;
            }
            if let Some(verdict) = read_verdict(&shared)? {
                return follow(&verdict);
            }
            if start.elapsed() > patience {
                let reason = self.what_is_missing(&shared)?;
                decide(&shared, self.rank, &format!("stop {reason}"))?;
                continue;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Writes this node's count to the prefix if it has grown; returns the count.
    fn report(&self, local: &Path, shared: &Path, reported: usize) -> Result<usize> {
        let ready = entries(local, "rank.")?.len();
        if ready > reported {
            let temporary = shared.join(format!(".{}.{}", self.host, self.rank));
            let target = shared.join(format!("node.{}", self.host));
            fs::write(&temporary, ready.to_string())
                .and_then(|()| fs::rename(&temporary, &target))
                .map_err(|e| Error::io("cannot write", &target, e))?;
        }
        Ok(ready)
    }

    fn what_is_missing(&self, shared: &Path) -> Result<String> {
        let (count, nodes) = counted(shared)?;
        let list: Vec<String> =
            nodes.iter().map(|(host, count)| format!("{host} ({count})")).collect();
        Ok(format!(
            "only {count} of {} ranks have the shim and a working engine; ranks ready by node: {}",
            self.size,
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

/// The sum of all nodes' counts, and the counts.
fn counted(shared: &Path) -> Result<(usize, Vec<(String, usize)>)> {
    let mut nodes = Vec::new();
    for host in entries(shared, "node.")? {
        let text = fs::read_to_string(shared.join(format!("node.{host}"))).unwrap_or_default();
        nodes.push((host, text.trim().parse().unwrap_or(0)));
    }
    nodes.sort();
    Ok((nodes.iter().map(|(_, count)| count).sum(), nodes))
}

/// Publishes the verdict unless there is one.
fn decide(shared: &Path, rank: usize, verdict: &str) -> Result<()> {
    let temporary = shared.join(format!(".verdict.{rank}"));
    let target = shared.join("verdict");
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(verdict.as_bytes())?;
        file.sync_all()?;
        match fs::hard_link(&temporary, &target) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
            _ => fs::remove_file(&temporary),
        }
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

fn follow(verdict: &str) -> Result<()> {
    match verdict.strip_prefix("stop ") {
        None => Ok(()),
        Some(reason) => Err(Error::Other(reason.to_string())),
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

    fn run(ranks: &[usize], size: usize, limit: Duration) -> Vec<Result<()>> {
        let base = tempfile::tempdir().unwrap();
        let all: Vec<_> = ranks.iter().map(|&rank| launch(base.path(), rank, size)).collect();
        std::thread::scope(|scope| {
            let each: Vec<_> =
                all.iter().map(|one| scope.spawn(move || one.prove_whole(limit))).collect();
            each.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_whole_launch_goes() {
        let results = run(&[0, 1, 2, 3, 4], 5, Duration::from_secs(10));
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    #[test]
    fn a_launch_with_a_missing_rank_stops_everywhere_with_the_counts() {
        for ranks in [[0, 1, 2], [1, 2, 3]] {
            let results = run(&ranks, 4, Duration::from_millis(60));
            for result in results {
                let text = result.unwrap_err().to_string();
                assert!(text.contains("only 3 of 4"), "{text}");
            }
        }
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
