//! The launch check: are we in all ranks of this launch? (DESIGN section 4, "Launch".)
//!
//! A rank without the shim, or without a working engine, would hang our first collective. So before
//! it, and without MPI, every rank reports to its node (a file in the node's control directory),
//! one rank of the node reports them to the prefix, and when their number is the world's size,
//! rank 0 publishes the verdict "go". The verdict is one file, made by link(2): the first one
//! wins, so a rank that gives up ("stop") and a rank that goes on can never both have their way.
//!
//! ```text
//! <control>/launch.<nonce>/rank.<r>, reporter, left.<r>   on each node
//! <control>/launch.<nonce>/verdict                        what the reporter has read on the prefix
//! <prefix>/.scr/launch/<nonce>/node.<host>                its ranks that are ready, of how many
//! <prefix>/.scr/launch/<nonce>/missing.<host>             its ranks that cannot take part, and why
//! <prefix>/.scr/launch/<nonce>/verdict                    "go", or "stop <reason>"
//! <prefix>/.scr/launch/<nonce>/left.<host>                its ranks have all read "stop"
//! ```
//! `missing.<host>` is written by ranks whose settings cannot be used, and by the shim where there
//! is no engine (`preload/src/absence.rs`): nothing else of ours runs there, if that.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::census::{all_ready, entries, excuses, nodes, ranges, whereabouts};
use crate::error::{Error, Result};

/// How long rank 0 waits for all nodes.
pub const LIMIT: Duration = Duration::from_secs(10);

/// How long it waits for others once it is known that somebody will never come.
const GRACE: Duration = Duration::from_secs(1);

/// How long a rank that the others count on goes on trying when it cannot read the verdict.
const STUBBORN: Duration = Duration::from_secs(60);

/// Age from which on the traces of a launch are swept; that launch is over or has its verdict.
const STALE: Duration = Duration::from_secs(3600);

/// Variables in which launchers tell how many ranks a node has.
const NODE_SIZES: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];

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
    /// Ranks of this node that the launcher has started, if it tells; see [`node_size`].
    pub node_size: Option<usize>,
}

/// A rank that waits for the verdict.
struct Wait<'a> {
    launch: &'a Launch,
    shared: PathBuf,
    local: PathBuf,
    /// The rank of its node that talks with the prefix.
    reporter: bool,
    begin: Instant,
    patience: Duration,
    /// Ranks of the node that the prefix knows of.
    reported: usize,
    /// Somebody will never come.
    hopeless: bool,
    /// This rank has come to the verdict "stop".
    stopped: bool,
}

impl Wait<'_> {
    /// Does this rank's part once; the verdict, if there is one.
    fn look(&mut self) -> Result<Option<String>> {
        let (launch, reporter) = (self.launch, self.reporter);
        let Wait { shared, local, begin, patience, .. } = self;
        let impatient = begin.elapsed() > *patience;
        let leads = reporter || launch.rank == 0;
        if !leads && let Some(text) = read_verdict(local)? {
            return Ok(Some(text));
        }
        // The prefix bears one reader a node, not one a rank.
        if (leads || impatient)
            && let Some(text) = read_verdict(shared)?
        {
            if reporter {
                decide(local, launch.rank, &text)?;
            }
            return Ok(Some(text));
        }
        if reporter {
            self.reported = launch.report(local, shared, self.reported)?;
        }
        if launch.rank == 0 && all_ready(&nodes(shared)?).len() == launch.size {
            decide(shared, launch.rank, "go")?;
            return Ok(None);
        }
        if !self.hopeless && leads {
            self.hopeless = !entries(shared, "missing.")?.is_empty();
            if self.hopeless {
                let soon = begin.elapsed() + launch.later(GRACE);
                *patience = soon.min(*patience);
            }
        }
        if impatient {
            let reason = launch.what_is_missing(shared)?;
            self.stopped = decide(shared, launch.rank, &format!("stop {reason}"))?;
        }
        Ok(None)
    }
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

/// Ranks that the launcher has started on this node, with the shim or without.
pub fn node_size(variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    NODE_SIZES.iter().find_map(|name| variable(name)?.parse().ok())
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
    /// The directories cannot be used. Once the others count on this rank it is an error only after
    /// [`STUBBORN`] more: they go on together, and would wait for it in their first collective.
    pub fn prove_whole(&self, limit: Duration) -> Result<Verdict> {
        let (shared, local) = (self.shared(), self.local());
        for dir in [&shared, &local] {
            fs::create_dir_all(dir)
                .map_err(|e| Error::io("cannot create the directory", dir, e))?;
        }
        let reporter = claim(&local.join("reporter"))?;
        let ready = local.join(format!("rank.{}", self.rank));
        fs::write(&ready, b"").map_err(|e| Error::io("cannot write", &ready, e))?;
        let mut wait = Wait {
            launch: self,
            shared,
            local,
            reporter,
            begin: Instant::now(),
            patience: self.later(limit),
            reported: 0,
            hopeless: false,
            stopped: false,
        };
        let mut pause = Duration::from_micros(500);
        loop {
            match wait.look() {
                Ok(Some(text)) => {
                    if text != "go" {
                        self.leave();
                    }
                    return Ok(match text.strip_prefix("stop ") {
                        None => Verdict::Go,
                        Some(reason) => {
                            Verdict::Stop { reason: reason.to_owned(), own: wait.stopped }
                        }
                    });
                }
                Err(error) if wait.begin.elapsed() > wait.patience + STUBBORN => return Err(error),
                Ok(None) | Err(_) => {}
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Rank 0 decides; the others wait longer, so that it normally is the one who says stop.
    fn later(&self, time: Duration) -> Duration {
        if self.rank == 0 { time } else { time + time / 2 }
    }

    /// Writes this node's ranks to the prefix if there are more; returns their number.
    fn report(&self, local: &Path, shared: &Path, reported: usize) -> Result<usize> {
        let ready = entries(local, "rank.")?;
        if ready.len() > reported {
            let temporary = shared.join(format!(".{}.{}", self.host, self.rank));
            let target = shared.join(format!("node.{}", self.host));
            let size = self.node_size.map_or_else(String::new, |size| format!(" of {size}"));
            fs::write(&temporary, format!("{}{size}", ready.join(",")))
                .and_then(|()| fs::rename(&temporary, &target))
                .map_err(|e| Error::io("cannot write", &target, e))?;
        }
        Ok(ready.len())
    }

    fn what_is_missing(&self, shared: &Path) -> Result<String> {
        let nodes = nodes(shared)?;
        let ready = all_ready(&nodes);
        let missing = (0..self.size).filter(|rank| !ready.contains(rank)).collect();
        let list: Vec<String> =
            nodes.iter().map(|(host, node)| format!("{host} ({})", ranges(&node.ready))).collect();
        Ok(format!(
            "only {} of {} ranks have the shim and a working engine. Missing: {}; ready, by \
             node: {}. See that libscr_preload.so, the engine beside it and SCR's settings can be \
             read on every node",
            ready.len(),
            self.size,
            whereabouts(missing, &nodes, &excuses(shared)?),
            if list.is_empty() { "none".into() } else { list.join(", ") }
        ))
    }

    /// This rank has read "stop". Whoever is the last one removes the traces.
    fn leave(&self) {
        let (shared, local) = (self.shared(), self.local());
        let count = |dir: &Path, start| entries(dir, start).map_or(0, |names| names.len());
        let _ = fs::write(local.join(format!("left.{}", self.rank)), b"");
        if count(&local, "left.") < count(&local, "rank.") {
            return;
        }
        let _ = fs::remove_dir_all(&local);
        let _ = fs::write(shared.join(format!("left.{}", self.host)), b"");
        if count(&shared, "left.") >= count(&shared, "node.") {
            self.remove_shared();
        }
    }

    fn remove_shared(&self) {
        let _ = fs::remove_dir_all(self.shared());
        let _ = fs::remove_dir(self.prefix_state.join("launch"));
    }

    /// Removes the traces. To be called after the first collective: then every rank has read the
    /// verdict.
    pub fn clean_up(&self) {
        let _ = fs::remove_dir_all(self.local());
        if self.rank == 0 {
            // Launches that did not come so far.
            sweep(&self.prefix_state.join("launch"), "");
            sweep(&self.control, "launch.");
            self.remove_shared();
        }
    }
}

/// Removes the directories below `dir` that begin with `start` and have not changed for long.
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

/// True for the one caller that made `path`.
fn claim(path: &Path) -> Result<bool> {
    match fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(Error::io("cannot write", path, e)),
    }
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
        // Swept with the rest if it stays; the verdict is out.
        let _ = fs::remove_file(&temporary);
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
    use std::collections::BTreeSet;

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
            node_size: None,
        }
    }

    fn run(ranks: &[usize], size: usize, limit: Duration) -> Vec<Verdict> {
        let base = tempfile::tempdir().unwrap();
        let all: Vec<_> = ranks.iter().map(|&rank| launch(base.path(), rank, size)).collect();
        let verdicts = prove(&all, limit);
        if verdicts[0] != Verdict::Go {
            let names = |dir: &Path| fs::read_dir(dir).unwrap().count();
            assert_eq!(names(&base.path().join(".scr")), 0, "traces stay");
            assert_eq!(names(&base.path().join("node1")), 0, "traces stay");
        }
        verdicts
    }

    fn prove(all: &[Launch], limit: Duration) -> Vec<Verdict> {
        std::thread::scope(|scope| {
            let each: Vec<_> =
                all.iter().map(|one| scope.spawn(move || one.prove_whole(limit))).collect();
            each.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
        })
    }

    #[test]
    fn a_rank_without_an_engine_is_not_waited_for_and_its_node_is_named() {
        let base = tempfile::tempdir().unwrap();
        let all: Vec<_> = [0, 1, 2].iter().map(|&rank| launch(base.path(), rank, 4)).collect();
        let shared = all[0].shared();
        let (verdicts, waited) = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| prove(&all, Duration::from_secs(3600)));
            // Before the note: a rank that comes more than the time of grace after it is missing.
            while all_ready(&nodes(&shared).unwrap_or_default()).len() < 3 {
                std::thread::yield_now();
            }
            fs::write(shared.join("missing.node1"), "3\tthere is none\n").unwrap();
            let begin = Instant::now();
            (waiting.join().unwrap(), begin.elapsed())
        });
        assert!(waited < 30 * GRACE, "waited {waited:?}");
        let told = |verdict: &Verdict| match verdict {
            Verdict::Stop { reason, own: true } => Some(reason.clone()),
            _ => None,
        };
        let reasons: Vec<String> = verdicts.iter().filter_map(told).collect();
        assert_eq!(reasons.len(), 1, "{verdicts:?}");
        assert!(reasons[0].contains("Missing: node1 (rank 3: there is none);"), "{reasons:?}");
    }

    #[test]
    fn an_error_after_the_others_count_on_a_rank_does_not_take_it_out() {
        let base = tempfile::tempdir().unwrap();
        let all = [0, 1, 2, 3].map(|rank| launch(base.path(), rank, 4));
        let (shared, away) = (all[0].shared(), base.path().join("away"));
        std::thread::scope(|scope| {
            let early: Vec<_> = all[1..]
                .iter()
                .map(|one| scope.spawn(move || one.prove_whole(Duration::from_secs(60))))
                .collect();
            while all_ready(&nodes(&shared).unwrap_or_default()).len() < 3 {
                std::thread::yield_now();
            }
            // The prefix fails for a moment: every look at it is an error.
            fs::rename(&shared, &away).unwrap();
            fs::write(&shared, "").unwrap();
            std::thread::sleep(Duration::from_millis(60));
            fs::remove_file(&shared).unwrap();
            fs::rename(&away, &shared).unwrap();
            assert_eq!(all[0].prove_whole(Duration::from_secs(60)).unwrap(), Verdict::Go);
            for one in early {
                assert_eq!(one.join().unwrap().unwrap(), Verdict::Go);
            }
        });
    }

    #[test]
    fn a_node_that_has_more_ranks_than_are_ready_is_named() {
        let base = tempfile::tempdir().unwrap();
        let all =
            [0, 1, 2].map(|rank| Launch { node_size: Some(2), ..launch(base.path(), rank, 4) });
        let verdicts = prove(&all, Duration::from_secs(3));
        let Verdict::Stop { reason, .. } = &verdicts[0] else { panic!("{verdicts:?}") };
        assert!(reason.contains("Missing: rank 3 on node1; ready"), "{reason}");
    }

    #[test]
    fn what_an_earlier_launch_left_is_swept() {
        let base = tempfile::tempdir().unwrap();
        let one = launch(base.path(), 0, 1);
        let (old, new) = (one.prefix_state.join("launch/old"), one.prefix_state.join("launch/new"));
        for dir in [&old, &new, &one.control] {
            fs::create_dir_all(dir).unwrap();
        }
        let before = std::time::SystemTime::now() - 2 * STALE;
        fs::File::open(&old).unwrap().set_modified(before).unwrap();
        one.clean_up();
        assert!(!old.exists() && new.exists());
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
            let results = run(&ranks, 4, Duration::from_secs(3));
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
