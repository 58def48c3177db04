//! Where the directories of a prefix are on a node: each has one of its own in that of its job,
//! `<base>/<user>/scr.<jobid>`, so that any number of simulations share an allocation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::disk::names_in;
use super::names::{LAUNCH, on_node};
use super::owner::is_made_for;
use crate::bytes::stable_number;
use crate::files::lease;

const OF_PREFIX: &str = "prefix.";

/// Where the directories of a prefix are below each base: `<user>/scr.<jobid>/prefix.<number>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The job's user.
    pub user: String,
    /// The job.
    pub job: String,
    folder: Option<String>,
}

impl Address {
    /// Returns the number in the name follows from the path, symlinks resolved: a prefix that was
    /// made anew meets the cache of the one before, and tells of it.
    pub fn new(user: &str, job: &str, prefix: &Path) -> Address {
        Address { user: user.to_owned(), job: job.to_owned(), folder: Some(folder_of(prefix)) }
    }

    /// Returns where a version that had one directory a job has left a cache of this prefix below
    /// one of `bases`, that is used until it is empty.
    pub fn or_older(self, root: &Path, bases: &[PathBuf], prefix: &Path) -> Address {
        let older = Address { folder: None, ..self.clone() };
        let is_there = |base: &PathBuf| is_made_for(&older.below(root, base).join(LAUNCH), prefix);
        if bases.iter().any(is_there) { older } else { self }
    }

    /// Returns the names of the directories, one in the other.
    pub fn names(&self) -> Vec<String> {
        let both = [self.user.clone(), format!("scr.{}", self.job)];
        both.into_iter().chain(self.folder.clone()).collect()
    }

    pub(super) fn below(&self, root: &Path, base: &Path) -> PathBuf {
        on_node(root, base).join(self.names().iter().collect::<PathBuf>())
    }
}

fn is_of_prefix(name: &str) -> bool {
    let number = name.strip_prefix(OF_PREFIX).unwrap_or_default();
    number.len() == 16 && u64::from_str_radix(number, 16).is_ok()
}

fn folder_of(prefix: &Path) -> String {
    format!("{OF_PREFIX}{:016x}", stable_number(&prefix.to_string_lossy()))
}

/// Returns the directory of the job, `<base>/<user>/scr.<jobid>`, in which `dir` is that of a
/// prefix.
pub fn job_dir(dir: &Path) -> &Path {
    let name = dir.file_name().unwrap_or_default();
    let is_prefix_own = is_of_prefix(&name.to_string_lossy());
    dir.parent().filter(|_| is_prefix_own).unwrap_or(dir)
}

/// Leaves out directories that other prefixes have in a job, if some are of this one.
pub(crate) fn keep_own(prefix: &Path, dirs: &mut [&mut BTreeSet<PathBuf>]) {
    let own = folder_of(prefix);
    let of = |dir: &Path| {
        let names = dir.iter().map(|name| name.to_string_lossy());
        names.rev().find(|name| is_of_prefix(name)).map(|name| name == own)
    };
    if dirs.iter().any(|dirs| dirs.iter().any(|dir| of(dir) == Some(true))) {
        dirs.iter_mut().for_each(|dirs| dirs.retain(|dir| of(dir) != Some(false)));
    }
}

/// Counts the launches of a job that are alive on a node and share its room.
#[derive(Debug, Default)]
pub struct Launches(Mutex<Option<(Instant, u64)>>);

impl Launches {
    /// A count serves for so long: it takes longer than a small file does.
    const FRESH: Duration = Duration::from_secs(1);

    pub fn alive(&self, control_dir: &Path) -> u64 {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((counted, count)) if counted.elapsed() < Self::FRESH => count,
            _ => last.insert((Instant::now(), count(control_dir))).1,
        }
    }
}

fn count(control_dir: &Path) -> u64 {
    let lives = |dir: &&PathBuf| matches!(lease::holder(&dir.join("lease")), Ok(Some(_)));
    1 + of_others(control_dir).iter().filter(lives).count() as u64
}

pub(super) fn of_others(control_dir: &Path) -> Vec<PathBuf> {
    let mut all = of_job(job_dir(control_dir));
    all.retain(|dir| dir != control_dir);
    all
}

fn of_job(dir: &Path) -> Vec<PathBuf> {
    let names = names_in(dir).unwrap_or_default();
    let of_prefixes = names.iter().filter(|name| is_of_prefix(name));
    // An older version has one in the directory of the job.
    of_prefixes.map(|name| dir.join(name)).chain([dir.to_owned()]).collect()
}

/// Returns the control directories of the user's other jobs on this node: without a resource
/// manager each prefix is one.
pub(super) fn of_other_jobs(control_dir: &Path) -> Vec<PathBuf> {
    let own = job_dir(control_dir);
    let Some(above) = own.parent() else { return Vec::new() };
    let jobs = names_in(above).unwrap_or_default().into_iter().map(|name| above.join(name));
    jobs.filter(|job| job != own).flat_map(|job| of_job(&job)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_other_jobs_are_found() {
        let user = tempfile::tempdir().unwrap();
        let [own, other] = ["scr.7", "scr.8"].map(|job| user.path().join(job));
        let [own, moved] = [&own, &other].map(|job| job.join(folder_of(Path::new("/p"))));
        [&own, &moved].iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        assert_eq!(of_other_jobs(&own), [moved, other]);
        assert_eq!(of_others(&own), [job_dir(&own)]);
    }

    fn hold(dir: &Path) -> lease::Lease {
        std::fs::create_dir_all(dir).unwrap();
        match lease::take(&dir.join("lease"), "a test", Duration::ZERO, || {}).unwrap() {
            lease::Taken::Ours(lease) => lease,
            lease::Taken::Busy(other) => panic!("{other}"),
        }
    }

    #[test]
    fn each_prefix_has_directories_of_its_own_in_that_of_its_job() {
        let of = |prefix: &str| {
            Address::new("me", "7", Path::new(prefix)).below(Path::new("/n"), Path::new("/base"))
        };
        let (one, other) = (of("/pfs/one"), of("/pfs/other"));
        assert_ne!(one, other);
        for dir in [&one, &other] {
            assert_eq!(job_dir(dir), Path::new("/n/base/me/scr.7"));
            assert_eq!(job_dir(job_dir(dir)), job_dir(dir));
        }
        assert_eq!(one, of("/pfs/one"));
    }

    #[test]
    fn launches_that_are_alive_are_counted() {
        let top = tempfile::tempdir().unwrap();
        let dir = |number: u64| top.path().join(format!("{OF_PREFIX}{number:016x}"));
        let own = hold(&dir(1));
        assert_eq!(count(&dir(1)), 1);
        let (other, older) = (hold(&dir(2)), hold(top.path()));
        std::fs::create_dir(dir(3)).unwrap();
        let counts = || [dir(1), dir(2), dir(3), top.path().to_owned()].map(|dir| count(&dir));
        assert_eq!(counts(), [3, 3, 4, 3]);
        drop(other);
        assert_eq!(counts(), [2, 3, 3, 2]);
        let launches = Launches::default();
        assert_eq!(launches.alive(&dir(1)), 2);
        drop((own, older));
        assert_eq!(launches.alive(&dir(1)), 2, "asked a moment ago");
    }

    #[test]
    fn what_a_person_has_copied_of_other_prefixes_is_left_out() {
        let prefix = Path::new("/pfs/one");
        let (own, other) = (folder_of(prefix), folder_of(Path::new("/pfs/other")));
        let set = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        let (mine, theirs) = (format!("/a/{own}/x"), format!("/a/{other}/x"));
        let mut both = set(&[&mine, &theirs, "/plain"]);
        let mut others = set(&[&theirs]);
        keep_own(prefix, &mut [&mut both, &mut others]);
        assert_eq!((both, others), (set(&[&mine, "/plain"]), set(&[])));
        let mut others = set(&[&theirs]);
        keep_own(prefix, &mut [&mut others]);
        assert_eq!(others.len(), 1, "of a prefix that was moved, perhaps");
    }
}
