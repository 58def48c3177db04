//! How a rank waits for the verdict of a launch check (`check.rs`).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::census::{all_ready, entries, leave_excuse, nodes};
use super::check::{Launch, LaunchVerdict};
use super::check_files::{DecidedVerdict, claim, make_dir, read_verdict, stop_text, write_at_once};
use super::herald::{Chain, Herald};
use crate::error::{Error, Result};
use crate::files::write_ours;

/// How long rank 0 waits for others once it is known that somebody will never come.
const GRACE: Duration = Duration::from_secs(1);

/// Pauses between two looks at files: a quarter of what the wait has taken so far, within these.
const LOOK_MIN: Duration = Duration::from_micros(500);
const LOOK: Duration = Duration::from_millis(20);

/// How often a rank tries to come to the others of its node.
const ATTEMPTS: u32 = 3;

/// Whether the others hear of a rank.
enum Reports {
    Work,
    /// They do not: since when, and what fails.
    Fail(Instant, Error),
    Excused,
}

pub(crate) struct Wait<'a> {
    launch: &'a Launch,
    chain: Chain<'a>,
    limit: Duration,
    shared: PathBuf,
    /// The rank of its node that reports its ranks to the prefix.
    reporter: bool,
    /// The node's directory is of no use to this rank, which reports itself.
    alone: bool,
    /// The others may count on this rank.
    entered: bool,
    begin: Instant,
    /// When the wait is over, if somebody will never come.
    hopeless_from: Option<Duration>,
    /// Ranks that the prefix knows of by this one.
    reported: usize,
    attempts: u32,
    reports: Reports,
    stopped: bool,
}

impl Launch {
    /// Waits until every rank of the launch has called this, or for less than one and a half times
    /// `limit`. All ranks get the same verdict: a rank that hears "go" is one that all others will
    /// wait for. Files that cannot be read or written make a verdict of "stop".
    pub fn prove_whole(&self, limit: Duration, herald: &dyn Herald) -> Result<LaunchVerdict> {
        Wait::new(self, limit, herald).verdict()
    }
}

impl<'a> Wait<'a> {
    pub fn new(launch: &'a Launch, limit: Duration, herald: &'a dyn Herald) -> Self {
        Wait {
            launch,
            chain: Chain { herald, rank: launch.rank, size: launch.size },
            limit,
            shared: launch.shared(),
            reporter: false,
            alone: false,
            entered: false,
            begin: Instant::now(),
            hopeless_from: None,
            reported: 0,
            attempts: 0,
            reports: Reports::Work,
            stopped: false,
        }
    }

    /// Waits for the verdict; at last without one, when nobody can say "go" any more.
    pub fn verdict(&mut self) -> Result<LaunchVerdict> {
        loop {
            let pause = (self.begin.elapsed() / 4).clamp(LOOK_MIN, LOOK);
            self.report_or_excuse();
            // A file that cannot be read is looked at again; what counts comes by MPI.
            match self.decide().ok().flatten() {
                Some(DecidedVerdict::Go) => {
                    self.chain.pass_on()?;
                    while self.launch.rank > 0 && !self.chain.listen(LOOK)? {}
                    return Ok(LaunchVerdict::Go);
                }
                Some(DecidedVerdict::Stop(reason)) => {
                    self.launch.leave(self.alone);
                    return Ok(self.stop(reason));
                }
                None if self.chain.listen(pause)? => {
                    return self.chain.pass_on().map(|()| LaunchVerdict::Go);
                }
                None if self.is_over() => {
                    return Ok(self.stop("no rank has said that all can take part".into()));
                }
                None => {}
            }
        }
    }

    /// Lets the others know that this rank is ready; if that fails for long, that it is not.
    fn report_or_excuse(&mut self) {
        if matches!(self.reports, Reports::Excused) {
            return;
        }
        let Err(error) = self.report() else {
            self.reports = Reports::Work;
            return;
        };
        // Who has given up removes what the later ones would miss.
        let (since, error) = match std::mem::replace(&mut self.reports, Reports::Work) {
            Reports::Fail(since, first) => (since, first),
            _ => (Instant::now(), error),
        };
        let Launch { host, rank, .. } = self.launch;
        let excuse = || leave_excuse(&self.shared, host, *rank, &error.to_string());
        self.reports = match since.elapsed() > self.limit / 4 && excuse().is_ok() {
            true => Reports::Excused,
            false => Reports::Fail(since, error),
        };
    }

    fn report(&mut self) -> Result<()> {
        let launch = self.launch;
        if !self.entered {
            make_dir(&self.shared)?;
            if let Some(local) = launch.local().filter(|_| self.attempts < ATTEMPTS) {
                self.attempts += 1;
                self.enter(&local)?;
            } else {
                self.alone = true;
            }
            self.entered = true;
        }
        if !self.reporter && !self.alone {
            return Ok(());
        }
        let local = launch.local().filter(|_| self.reporter);
        let mut ready = local.map_or_else(|| Ok(Vec::new()), |dir| entries(&dir, "rank."))?;
        if self.alone {
            ready.push(launch.rank.to_string());
        }
        if ready.len() > self.reported {
            launch.write_report(&self.shared, &ready)?;
            self.reported = ready.len();
        }
        Ok(())
    }

    fn enter(&mut self, local: &Path) -> Result<()> {
        make_dir(local)?;
        self.reporter |= claim(&local.join("reporter"))?;
        let ready = local.join(format!("rank.{}", self.launch.rank));
        write_ours(&ready, b"").map_err(|e| Error::io("cannot write", &ready, e))
    }

    fn decide(&mut self) -> Result<Option<DecidedVerdict>> {
        let launch = self.launch;
        let impatient = self.begin.elapsed() > self.patience();
        let leads = self.reporter || self.alone || launch.rank == 0;
        let of_node = launch.local().map(|local| local.join("stop"));
        let told = of_node.as_ref().filter(|_| !leads).and_then(|path| read_verdict(path).ok()?);
        // The prefix bears one reader a node, not one a rank.
        if told.is_some() || (!leads && !impatient) {
            return Ok(told);
        }
        let verdict = self.shared.join("verdict");
        // The others of the node look at its own directory only.
        let tell_node = |reason: &str| {
            if let Some(path) = &of_node {
                let _ = write_at_once(path, launch.rank, &stop_text(reason));
            }
        };
        match read_verdict(&verdict) {
            Ok(Some(found)) => {
                if let DecidedVerdict::Stop(reason) = &found {
                    tell_node(reason);
                }
                return Ok(Some(found));
            }
            Err(error) if !impatient => return Err(error),
            _ => {}
        }
        if !impatient && launch.rank == 0 && all_ready(&nodes(&self.shared)?).len() == launch.size {
            return self.say_go(&verdict);
        }
        let missing = |shared| entries(shared, "missing.").is_ok_and(|names| !names.is_empty());
        if self.hopeless_from.is_none() && missing(&self.shared) {
            self.hopeless_from = Some(self.begin.elapsed() + launch.later(GRACE));
        }
        if !impatient || !claim(&verdict)? {
            return Ok(None);
        }
        self.stopped = true;
        let reason = match self.cannot_report() {
            Some(own) => own,
            None => launch.what_is_missing(&self.shared).unwrap_or_else(|error| error.to_string()),
        };
        let _ = write_ours(&verdict, stop_text(&reason).as_bytes());
        tell_node(&reason);
        Ok(Some(DecidedVerdict::Stop(reason)))
    }

    /// All are ready, says rank 0, unless somebody has given up meanwhile.
    fn say_go(&self, verdict: &Path) -> Result<Option<DecidedVerdict>> {
        // A file system that takes too long for this has let others go who cannot read it.
        let goes = claim(verdict)? && self.begin.elapsed() <= self.patience();
        if goes {
            // For those who cannot wait any longer. The others hear it.
            let _ = write_ours(verdict, b"go\n");
        }
        Ok(goes.then_some(DecidedVerdict::Go))
    }

    fn patience(&self) -> Duration {
        let whole = self.launch.later(self.limit);
        self.hopeless_from.map_or(whole, |hopeless| hopeless.min(whole))
    }

    fn is_over(&self) -> bool {
        // Nobody can count on a rank that nobody has heard of.
        let unheard = match self.reports {
            Reports::Fail(since, _) if !self.entered => since.elapsed() > self.limit / 4,
            _ => false,
        };
        unheard || self.begin.elapsed() > self.patience() * 6 / 5
    }

    fn cannot_report(&self) -> Option<String> {
        let Reports::Fail(_, error) = &self.reports else { return None };
        let Launch { host, rank, .. } = self.launch;
        Some(format!("rank {rank} on {host} cannot report to the others: {error}"))
    }

    /// The verdict, and whether this rank tells why. What it could not tell the others it tells
    /// itself.
    fn stop(&mut self, reason: String) -> LaunchVerdict {
        let Some(reason) = self.cannot_report().filter(|_| !self.stopped) else {
            return LaunchVerdict::Stop { reason, own: self.stopped };
        };
        let told = self
            .launch
            .local()
            .and_then(|local| make_dir(&local).and_then(|()| claim(&local.join("told"))).ok());
        LaunchVerdict::Stop { reason, own: told != Some(false) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::collections::HashSet;
    use std::sync::Mutex;

    use super::*;

    /// Who has told whom, of the ranks of a process.
    #[derive(Default)]
    struct Words(Mutex<HashSet<(usize, usize)>>);

    struct Voice<'a>(&'a Words, usize);

    impl Herald for Voice<'_> {
        fn tell(&self, rank: usize) -> Result<()> {
            self.0.0.lock().unwrap().insert((self.1, rank));
            Ok(())
        }

        fn has_told(&self, rank: usize) -> Result<bool> {
            Ok(self.0.0.lock().unwrap().remove(&(rank, self.1)))
        }
    }

    fn launch(base: &Path, rank: usize, size: usize) -> Launch {
        Launch {
            prefix_state: base.join(".scr"),
            control: Some(base.join(format!("node{}", rank / 2))),
            nonce: "n1".into(),
            host: format!("node{}", rank / 2),
            rank,
            size,
            node_size: None,
            handed_on: None,
        }
    }

    fn prove(all: &[Launch], limit: Duration) -> Vec<LaunchVerdict> {
        let words = &Words::default();
        std::thread::scope(|scope| {
            let prove = |one| scope.spawn(move || prove_one(one, words, limit));
            let each: Vec<_> = all.iter().map(prove).collect();
            each.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    fn prove_one(launch: &Launch, words: &Words, limit: Duration) -> LaunchVerdict {
        launch.prove_whole(limit, &Voice(words, launch.rank)).unwrap()
    }

    fn run(ranks: &[usize], size: usize, limit: Duration) -> Vec<LaunchVerdict> {
        let base = tempfile::tempdir().unwrap();
        let all: Vec<_> = ranks.iter().map(|&rank| launch(base.path(), rank, size)).collect();
        let verdicts = prove(&all, limit);
        if verdicts[0] != LaunchVerdict::Go {
            let names = |dir: &Path| fs::read_dir(dir).unwrap().count();
            assert_eq!(names(&base.path().join(".scr")), 0, "traces stay");
            assert_eq!(names(&base.path().join("node1")), 0, "traces stay");
        }
        verdicts
    }

    fn ready(shared: &Path) -> usize {
        all_ready(&nodes(shared).unwrap_or_default()).len()
    }

    fn told(verdicts: &[LaunchVerdict]) -> Vec<&str> {
        let told = |verdict| match verdict {
            &LaunchVerdict::Stop { ref reason, own: true } => Some(reason.as_str()),
            _ => None,
        };
        verdicts.iter().filter_map(told).collect()
    }

    #[test]
    fn a_rank_without_an_engine_is_not_waited_for_and_its_node_is_named() {
        let base = tempfile::tempdir().unwrap();
        let all: Vec<_> = [0, 1, 2].iter().map(|&rank| launch(base.path(), rank, 4)).collect();
        let shared = all[0].shared();
        let (verdicts, waited) = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| prove(&all, Duration::from_secs(3600)));
            // Before the note: a rank that comes more than the time of grace after it is missing.
            while ready(&shared) < 3 {
                std::thread::yield_now();
            }
            fs::write(shared.join("missing.node1"), "3\tthere is none\n").unwrap();
            let begin = Instant::now();
            (waiting.join().unwrap(), begin.elapsed())
        });
        assert!(waited < 30 * GRACE, "waited {waited:?}");
        let reasons = told(&verdicts);
        assert_eq!(reasons.len(), 1, "{verdicts:?}");
        assert!(reasons[0].contains("Missing: node1 (rank 3: there is none);"), "{reasons:?}");
    }

    /// The others count on it and enter their collective.
    #[test]
    fn a_rank_that_can_read_nothing_any_more_hears_go() {
        let base = tempfile::tempdir().unwrap();
        let mut all = [0, 1, 2, 3].map(|rank| launch(base.path(), rank, 4));
        let (shared, own) = (all[0].shared(), base.path().join("own"));
        fs::create_dir_all(base.path().join(".scr")).unwrap();
        std::os::unix::fs::symlink(".scr", &own).unwrap();
        let node = base.path().join("node of 3");
        (all[3].prefix_state, all[3].control) = (own.clone(), Some(node.clone()));
        let (words, limit) = (&Words::default(), Duration::from_secs(3600));
        std::thread::scope(|scope| {
            let early: Vec<_> =
                all[1..].iter().map(|one| scope.spawn(|| prove_one(one, words, limit))).collect();
            while ready(&shared) < 3 {
                std::thread::yield_now();
            }
            // For good, and neither of its directories is left.
            fs::remove_file(&own).unwrap();
            fs::write(&own, "").unwrap();
            fs::remove_dir_all(&node).unwrap();
            fs::write(&node, "").unwrap();
            assert_eq!(prove_one(&all[0], words, limit), LaunchVerdict::Go);
            assert!(early.into_iter().all(|one| one.join().unwrap() == LaunchVerdict::Go));
        });
        assert!(words.0.lock().unwrap().is_empty(), "a word is left for the program to receive");
    }

    #[test]
    fn a_rank_that_cannot_use_its_node_reports_itself() {
        let base = tempfile::tempdir().unwrap();
        let mut all = [0, 1, 2, 3].map(|rank| launch(base.path(), rank, 4));
        fs::write(base.path().join("file"), "").unwrap();
        all[2].control = Some(base.path().join("file/control"));
        all[1].control = None;
        let verdicts = prove(&all, Duration::from_secs(3600));
        assert!(verdicts.iter().all(|one| *one == LaunchVerdict::Go), "{verdicts:?}");
    }

    #[test]
    fn a_rank_that_cannot_report_says_why_and_is_not_waited_for() {
        let base = tempfile::tempdir().unwrap();
        let all = [0, 1, 2, 3].map(|rank| launch(base.path(), rank, 4));
        // The report cannot take its name, whoever of the node makes it.
        for rank in [2, 3] {
            fs::create_dir_all(all[0].shared().join(format!("node.node1.{rank}/x"))).unwrap();
        }
        let verdicts = prove(&all, Duration::from_secs(12));
        let reasons = told(&verdicts);
        assert_eq!(reasons.len(), 1, "{verdicts:?}");
        for part in ["Missing: node1 (rank ", "cannot write", "/node.node1."] {
            assert!(reasons[0].contains(part), "{reasons:?}");
        }
    }

    #[test]
    fn a_rank_whose_prefix_fails_tells_it_itself_and_all_end() {
        let base = tempfile::tempdir().unwrap();
        let mut all = [0, 1, 2].map(|rank| launch(base.path(), rank, 3));
        fs::write(base.path().join("file"), "").unwrap();
        all[2].prefix_state = base.path().join("file/.scr");
        // A quarter of it is how long a busy machine may keep a rank from reporting.
        let verdicts = prove(&all, Duration::from_secs(12));
        let reasons = told(&verdicts);
        assert_eq!(reasons.len(), 2, "{verdicts:?}");
        assert!(reasons[0].contains("Missing: rank 2;"), "{reasons:?}");
        let own = "rank 2 on node1 cannot report to the others: cannot create the directory";
        assert!(reasons[1].starts_with(own), "{reasons:?}");
    }

    /// Who was to decide has died over it, or half of what it has written is there.
    #[test]
    fn half_a_verdict_stops_all() {
        for half in ["", "g", "go", "stop only 3 o"] {
            let base = tempfile::tempdir().unwrap();
            let all = [0, 1, 2, 3].map(|rank| launch(base.path(), rank, 4));
            fs::create_dir_all(all[0].shared()).unwrap();
            fs::write(all[0].shared().join("verdict"), half).unwrap();
            let verdicts = prove(&all, Duration::from_secs(1));
            assert!(verdicts.iter().all(|one| *one != LaunchVerdict::Go), "{half}: {verdicts:?}");
        }
    }

    #[test]
    fn a_node_that_has_more_ranks_than_are_ready_is_named() {
        let base = tempfile::tempdir().unwrap();
        let all =
            [0, 1, 2].map(|rank| Launch { node_size: Some(2), ..launch(base.path(), rank, 4) });
        let verdicts = prove(&all, Duration::from_secs(3));
        let LaunchVerdict::Stop { reason, .. } = &verdicts[0] else { panic!("{verdicts:?}") };
        assert!(reason.contains("Missing: rank 3 on node1; ready"), "{reason}");
    }

    #[test]
    fn a_whole_launch_goes() {
        let ranks: Vec<usize> = (0..20).collect();
        let results = run(&ranks, 20, Duration::from_secs(100));
        assert!(results.iter().all(|verdict| *verdict == LaunchVerdict::Go), "{results:?}");
    }

    #[test]
    fn a_launch_with_a_missing_rank_stops_everywhere_and_one_rank_tells() {
        let cases = [([0, 1, 2], "rank 3;", "node1 (2)"), ([1, 2, 3], "rank 0;", "node1 (2-3)")];
        for (ranks, missing, ready) in cases {
            let results = run(&ranks, 4, Duration::from_secs(3));
            assert!(results.iter().all(|verdict| *verdict != LaunchVerdict::Go), "{results:?}");
            let reasons = told(&results);
            assert_eq!(reasons.len(), 1, "{results:?}");
            for part in ["only 3 of 4", missing, ready] {
                assert!(reasons[0].contains(part), "{reasons:?}");
            }
        }
    }
}
