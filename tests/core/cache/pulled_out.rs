//! A file that ranks of several nodes write goes to the prefix in mid-run: ranks are threads that
//! meet in a folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use scr_abi::accesses::Moment;
use scr_core::error::Result;
use scr_core::parts::{Cut, Extent, NodeLog, Write};
use scr_core::transfer::{self, PullOut, PulledOut};

use super::cluster::Cluster;
use super::flush::files_below;
use crate::support::mortal::{self, Fate, Plan, What};
use crate::support::syncs::{self, Fault};

/// All ranks of most jobs.
const ALL: [usize; 4] = [0, 1, 2, 3];
const NAME: &str = "ckpt/10/all";
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(400);

/// A call of a rank: bytes of its number, or a cut.
#[derive(Clone, Copy)]
struct Call {
    stamp: u64,
    rank: usize,
    begin: usize,
    /// `None`: the file ends at `begin`.
    end: Option<usize>,
}

/// What was called on a file, in order.
fn content<'a>(calls: impl IntoIterator<Item = &'a (u8, Call)>) -> Vec<u8> {
    let mut file = Vec::new();
    for (byte, call) in calls {
        match call.end {
            None => file.resize(call.begin, 0),
            Some(end) => {
                file.resize(file.len().max(end), 0);
                file[call.begin..end].fill(*byte);
            }
        }
    }
    file
}

/// A job whose ranks have written a file together.
struct Job {
    cluster: Cluster,
    nodes: Vec<usize>,
    calls: Vec<(u8, Call)>,
}

impl Job {
    fn new(nodes: &[usize], calls: Vec<(u8, Call)>) -> Job {
        let job = Job { cluster: Cluster::new(), nodes: nodes.to_vec(), calls };
        let of_node = |call: &&(u8, Call), node| job.nodes[call.1.rank] == node;
        for node in 0..4 {
            let own = || job.calls.iter().filter(|call| of_node(call, node));
            let file = job.file(node);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            if own().next().is_some() {
                fs::write(&file, content(own())).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
            }
        }
        job
    }

    fn random(seed: u64, nodes: &[usize]) -> Job {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut call = |number: u8| {
            let begin = random.usize(..7000);
            let end = (random.u8(..4) > 0).then(|| begin + random.usize(1..2500));
            // Some ranks write nothing.
            let rank = random.usize(..nodes.len().min(2 + seed as usize % 3));
            (number, Call { stamp: random.u64(..5), rank, begin, end })
        };
        let mut calls: Vec<(u8, Call)> = (1..20).map(&mut call).collect();
        calls.sort_by_key(|(_, call)| call.stamp);
        Job::new(nodes, calls)
    }

    /// Each rank has written its own bytes, at one stamp.
    fn simple(nodes: &[usize]) -> Job {
        let call = |rank: usize| {
            let begin = rank * 1000;
            (rank as u8 + 1, Call { stamp: 1, rank, begin, end: Some(begin + 1000) })
        };
        Job::new(nodes, (0..nodes.len()).map(call).collect())
    }

    fn file(&self, node: usize) -> PathBuf {
        self.cluster.prefix().with_file_name(format!("files of {node}")).join("all")
    }

    fn log(&self, rank: usize) -> NodeLog {
        let mut log = NodeLog::default();
        for (_, call) in self.calls.iter().filter(|(_, call)| call.rank == rank) {
            let (begin, stamp) = (call.begin as u64, Moment::at(call.stamp));
            if let Some(end) = call.end {
                log.writes.push(Write { piece: Extent::new(begin, end as u64), stamp });
                continue;
            }
            log.writes.iter_mut().for_each(|one| one.piece.end = one.piece.end.min(begin));
            log.writes.retain(|one| !one.piece.is_empty());
            log.cuts.push(Cut { length: begin, stamp });
        }
        log
    }

    fn folder(&self) -> PathBuf {
        self.cluster.prefix().join(".scr/wanted/10/0123456789abcdef")
    }

    fn target(&self) -> PathBuf {
        self.cluster.prefix().join(NAME)
    }

    fn join(&self, rank: usize, deadline: Duration) -> Result<PulledOut> {
        let (prefix, folder, target) = (self.cluster.prefix(), self.folder(), self.target());
        let (prefix, folder, target) = (&prefix, &folder, &target);
        let pull = PullOut { prefix, folder, target, rank, nodes: &self.nodes, deadline };
        let file = self.file(self.nodes[rank]);
        pull.join(&self.log(rank), Some(file.as_path()).filter(|file| file.exists()))
    }

    /// Some ranks take part.
    fn join_all(&self, ranks: &[usize], deadline: Duration) -> Vec<Result<PulledOut>> {
        thread::scope(|scope| {
            let start = |rank: &usize| {
                let rank = *rank;
                scope.spawn(move || self.join(rank, deadline))
            };
            let threads: Vec<_> = ranks.iter().map(start).collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    /// What the file is if of two nodes with one stamp the one was later that `order` has later.
    fn whole(&self, order: impl Fn(usize) -> usize) -> Vec<u8> {
        let mut calls = self.calls.clone();
        calls.sort_by_key(|(_, call)| (call.stamp, order(self.nodes[call.rank])));
        content(&calls)
    }

    /// The file is there, and nothing else.
    fn check(&self, done: &PulledOut) {
        let (whole, other) = (self.whole(|node| node), self.whole(|node| 9 - node));
        assert!(fs::read(self.target()).unwrap() == whole);
        assert_eq!(done.size, whole.len() as u64);
        for (at, byte) in whole.iter().enumerate() {
            let is_told = done.conflicts.cover(Extent::new(at as u64, at as u64 + 1));
            assert!(is_told || other.get(at).copied().unwrap_or(0) == *byte, "{at}");
        }
        assert_eq!(self.target().metadata().unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(self.staged(), (1, 0));
    }

    /// Nothing has come, and nothing is left.
    fn check_none(&self) {
        assert!(self.target().symlink_metadata().is_err());
        assert_eq!(self.staged(), (0, 0));
    }

    /// After a fault and the next start: the whole file is there, or what was there before. Returns
    /// which.
    fn check_after(&self, old: Option<&str>, done: &[Result<PulledOut>], what: &str) -> bool {
        self.start();
        let found = fs::read(self.target()).ok();
        let is_new = found.is_some() && found.as_deref() != old.map(str::as_bytes);
        assert!(!is_new || found.unwrap() == self.whole(|node| node), "{what}");
        assert_eq!(self.staged(), (usize::from(is_new || old.is_some()), 0), "{what}");
        assert!(is_new || done.iter().all(Result::is_err), "{what}");
        is_new
    }

    /// An older file has its name.
    fn put_old(&self, old: &str) {
        fs::create_dir_all(self.target().parent().unwrap()).unwrap();
        fs::write(self.target(), old).unwrap();
    }

    /// How many files there are in the folder of the target, and notes of staged ones.
    fn staged(&self) -> (usize, usize) {
        let count = |dir: &Path| if dir.exists() { files_below(dir).len() } else { 0 };
        let prefix = self.cluster.prefix();
        (count(&prefix.join("ckpt")), count(&prefix.join(".scr/staged")))
    }

    /// The next start.
    fn start(&self) {
        let outcome = self.cluster.launch("a").run(|ctx| {
            transfer::recover_journal(ctx).unwrap();
        });
        assert_eq!(outcome.results, [Some(())]);
    }
}

/// All have failed, and say why.
fn assert_failed(done: &[Result<PulledOut>], why: &str) {
    for one in done {
        let error = one.as_ref().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn the_prefix_gets_what_all_have_written() {
    let mut conflicts = 0;
    for seed in 0..12 {
        for nodes in [[0, 0, 1, 1], [0, 1, 2, 3], [2, 1, 2, 1]] {
            let job = Job::random(seed, &nodes);
            let done = job.join_all(&ALL, LONG);
            let first = done[0].as_ref().unwrap();
            done.iter().for_each(|one| assert_eq!(one.as_ref().unwrap(), first));
            job.check(first);
            conflicts += usize::from(!first.conflicts.is_empty());
        }
    }
    assert!((1..36).contains(&conflicts), "{conflicts}");
}

#[test]
fn the_file_of_a_node_says_what_its_ranks_did_between_two_sync_points() {
    let call = |rank, stamp, begin, end| (1, Call { stamp, rank, begin, end });
    let (write, cut) = (call(0, 1, 0, Some(3000)), call(1, 1, 1000, None));
    for calls in [[write, cut], [cut, write]] {
        let calls = calls.into_iter().chain([call(2, 2, 0, Some(500))]).collect();
        let job = Job::new(&[0, 0, 1], calls);
        let done = job.join_all(&[0, 1, 2], LONG);
        job.check(done[2].as_ref().unwrap());
    }
}

#[test]
fn who_is_late_waits_for_an_outcome_that_is_on_its_way() {
    let (job, time) = (Job::simple(&[0, 1]), Duration::from_secs(2));
    let fate = Fate::new(job.cluster.prefix().parent().unwrap(), None, (None, None));
    let (late, outcome) = (Instant::now() + time + SHORT, job.folder().join("outcome"));
    let wait = move || {
        if outcome.exists() {
            thread::sleep(late.saturating_duration_since(Instant::now()));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            fate.life(0).enter();
            mortal::before_steps(Some(Box::new(wait)));
            job.join(0, LONG).unwrap();
        });
        scope.spawn(|| job.join(1, time).unwrap());
    });
    assert!(Instant::now() > late);
    job.check(&job.join(1, LONG).unwrap());
}

#[test]
fn threads_of_one_rank_do_it_once() {
    let job = Job::random(3, &[0, 0, 1, 1]);
    let done = job.join_all(&[0, 0, 0, 1, 2, 2, 3], LONG);
    done.iter().for_each(|one| job.check(one.as_ref().unwrap()));
    // The program goes on there.
    fs::write(job.target(), "newer").unwrap();
    job.join(0, LONG).unwrap();
    assert_eq!(fs::read_to_string(job.target()).unwrap(), "newer");
}

#[test]
fn a_rank_that_does_not_come_ends_it_for_all() {
    let job = Job::simple(&[0, 0, 1, 1]);
    let begun = Instant::now();
    assert_failed(&job.join_all(&[0, 1, 2], SHORT), "rank 3 on node 1 has not answered in 400ms");
    assert!(begun.elapsed() < 20 * SHORT);
    assert_failed(&job.join_all(&[3], LONG), "rank 3 on node 1 has not answered");
    job.check_none();

    // A file that was there is still there.
    let job = Job::simple(&[0, 0, 1, 1]);
    job.put_old("old");
    assert_failed(&job.join_all(&[1, 2, 3], SHORT), "rank 0 on node 0 has not answered");
    assert_eq!(fs::read_to_string(job.target()).unwrap(), "old");
    assert_eq!(job.staged().0, 1);
}

/// What was told as `name` is not there as a whole.
fn tear(job: &Job, name: &str, to: u64) {
    let path = job.folder().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::File::options().write(true).create(true).truncate(false).open(&path).unwrap();
    file.set_len(to).unwrap();
}

#[test]
fn a_list_that_is_torn_is_not_read() {
    let whole = Job::simple(&[0, 0, 1, 1]);
    whole.join_all(&ALL, LONG);
    let list = fs::read(whole.folder().join("list/2")).unwrap();
    for length in 0..list.len() as u64 {
        let job = Job::simple(&[0, 0, 1, 1]);
        tear(&job, "list/2", 0);
        fs::write(job.folder().join("list/2"), &list).unwrap();
        tear(&job, "list/2", length);
        match length % 2 {
            // It is that of an attempt that was killed: the rank tells it again.
            0 => job.check(job.join_all(&ALL, LONG)[3].as_ref().unwrap()),
            _ => assert_failed(&job.join_all(&[0, 1, 3], SHORT), "rank 2 on node 1 has not"),
        }
    }
}

#[test]
fn bytes_that_are_lost_are_not_taken_for_zeros() {
    let job = Job::simple(&[0, 0, 1, 1]);
    fs::remove_file(job.file(1)).unwrap();
    assert_failed(&job.join_all(&ALL, LONG), "node 1 has lost its bytes");
    job.check_none();
    // Nobody has made it yet: nothing is brought.
    let job = Job::new(&[0, 1], Vec::new());
    job.join_all(&[0, 1], LONG).into_iter().for_each(|one| drop(one.unwrap()));
    job.check_none();
}

#[test]
fn who_stands_still_is_named() {
    for (name, why) in [
        ("staged/1", "node 1 has not written its bytes"),
        ("staged/0", "node 0 has not written its bytes"),
        ("outcome", "nobody has given the file its name"),
    ] {
        let job = Job::simple(&[0, 1]);
        // A thread has begun with it, and nothing more is heard.
        tear(&job, name, 0);
        assert_failed(&job.join_all(&[0, 1], SHORT), why);
        job.check_none();
    }
}

/// Tries all `cases`, of which most wait: many at a time.
fn each<T: Copy + Send + Sync>(cases: &[T], try_one: impl Fn(T) -> bool + Sync) -> usize {
    let tried = |cases: &[T]| cases.iter().filter(|case| try_one(**case)).count();
    thread::scope(|scope| {
        let start = |cases| scope.spawn(move || tried(cases));
        let threads: Vec<_> = cases.chunks(cases.len().div_ceil(12)).map(start).collect();
        threads.into_iter().map(|one| one.join().unwrap()).sum()
    })
}

#[test]
fn every_durable_step_may_fail() {
    let job = Job::random(5, &[0, 0, 1, 1]);
    let prefix = job.cluster.prefix();
    syncs::fail_below(&prefix, Fault { after: usize::MAX, errno: libc::EIO, for_good: false });
    job.join_all(&ALL, LONG).into_iter().for_each(|one| drop(one.unwrap()));
    let steps = syncs::work_below(&prefix);
    assert!(steps.len() > 40, "{steps:?}");
    let cases: Vec<_> = (0..steps.len()).flat_map(|at| [(at, false), (at, true)]).collect();
    let whole = each(&cases, |(after, for_good)| {
        let job = Job::random(5, &[0, 0, 1, 1]);
        let prefix = job.cluster.prefix();
        let errno = [libc::EIO, libc::ENOSPC][after % 2];
        syncs::fail_below(&prefix, Fault { after, errno, for_good });
        let done = job.join_all(&ALL, SHORT);
        let steps = syncs::work_below(&prefix);
        job.check_after(None, &done, &format!("{:?} failed ({for_good})", steps.get(after)))
    });
    assert!((1..cases.len()).contains(&whole), "{whole} of {}", cases.len());
}

/// Some die. Returns whether the file has come, and the steps of each rank.
fn killed(plan: Option<Plan>, old: Option<&str>) -> (bool, Vec<Vec<String>>) {
    let job = Job::random(5, &[0, 0, 1, 1]);
    old.into_iter().for_each(|old| job.put_old(old));
    let fate = Fate::new(job.cluster.prefix().parent().unwrap(), plan, (None, None));
    let (nodes, files) = (job.nodes.clone(), [0, 1].map(|node| job.file(node)));
    let dies = move |rank: usize, with: usize, what| match what {
        What::Node => nodes[rank] == nodes[with],
        _ => rank == with,
    };
    let who = dies.clone();
    fate.on_death(
        move |rank, what| ALL.into_iter().filter(|other| who(*other, rank, what)).collect(),
        move |dead, what| {
            if what == What::Node {
                fs::remove_file(&files[dead[0] / 2]).unwrap();
            }
        },
    );
    let lives: Vec<_> = ALL.iter().map(|rank| fate.life(*rank)).collect();
    let join = |rank: usize| {
        lives[rank].enter();
        let begun = Instant::now();
        let done = job.join(rank, if plan.is_some() { SHORT } else { LONG });
        lives[rank].end();
        (done, begun.elapsed())
    };
    let done: Vec<_> = thread::scope(|scope| {
        let start = |rank: &usize| {
            let (rank, join) = (*rank, &join);
            scope.spawn(move || join(rank))
        };
        let threads: Vec<_> = ALL.iter().map(start).collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(!fate.is_stuck());
    let lives_on = |rank: &usize| !plan.is_some_and(|plan| dies(*rank, plan.rank, plan.what));
    for (done, time) in ALL.into_iter().filter(lives_on).map(|rank| &done[rank]) {
        assert!(*time < LONG, "{plan:?}: {time:?}");
        let why = done.as_ref().map_or_else(ToString::to_string, |_| String::new());
        let is_told = done.is_ok() || why.contains(" has not ") || why.contains("nobody has ");
        assert!(is_told, "{plan:?}: {why}");
    }
    let done: Vec<_> = done.into_iter().map(|(done, _)| done).collect();
    (job.check_after(old, &done, &format!("{plan:?}")), fate.steps())
}

/// At each step of each rank, with an older file under the name at each other one.
fn killed_at_every_step(what: What, even: usize) {
    let (is_there, steps) = killed(None, None);
    assert!(is_there && steps[0].len() > 12, "{steps:?}");
    let of_rank = |rank: usize| (0..steps[rank].len()).map(move |step| (rank, step));
    let cases: Vec<_> = ALL.into_iter().flat_map(of_rank).collect();
    let whole = each(&cases, |(rank, step)| {
        let old = (step % 2 == even).then_some("old");
        killed(Some(Plan { rank, step, what }), old).0
    });
    assert!((1..cases.len()).contains(&whole), "{whole} of {}", cases.len());
}

#[test]
fn a_rank_may_be_killed_at_every_step() {
    killed_at_every_step(What::Rank, 0);
}

#[test]
fn a_node_may_be_lost_at_every_step() {
    killed_at_every_step(What::Node, 1);
}
