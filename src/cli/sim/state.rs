//! What a simulated cluster leaves on disk: one small directory, its table of nodes, its lock.
//!
//! | file | writer | content |
//! |---|---|---|
//! | `lock` | keeper | held (flock) as long as the cluster lives |
//! | `keeper` | start | process number of the keeper, as the host counts |
//! | `inside` | keeper | number of the keeper's process namespace |
//! | `nodes` | keeper | one line a node: name, address, process number, state |
//! | `hosts`, `agent` | keeper | the nodes' `/etc/hosts`, the remote shell for mpirun |
//! | `hostfile.openmpi`, `hostfile.mpich` | keeper | the nodes that are up, one slot line each |
//! | `home` | start | an ordinary user's home directory; absent for root |
//! | `share` | keeper | directories below those of the nodes' own that all see, one a line |
//! | `log` | keeper | what went wrong |

use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scr_core::error::{Error, Result};

use super::{ordinary, places};

/// Address of the head, which runs mpirun; node n has the last number n.
pub const HEAD_ADDRESS: &str = "10.77.0.254";
/// The network of every cluster: each lives in a network namespace of its own.
pub const SUBNET: &str = "10.77.0.0/24";
/// More would not fit the subnet.
pub const MAX_NODES: usize = 200;

/// What is younger may be on its way.
const SWEEP_AGE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub address: String,
    /// Its first process, as the keeper's process namespace counts.
    pub pid: u32,
    pub alive: bool,
}

impl Node {
    fn line(&self) -> String {
        let state = if self.alive { "up" } else { "dead" };
        format!("{} {} {} {state}", self.name, self.address, self.pid)
    }

    fn of_line(line: &str) -> Option<Node> {
        let mut words = line.split_whitespace();
        let (name, address) = (words.next()?.to_owned(), words.next()?.to_owned());
        let pid = words.next()?.parse().ok()?;
        let alive = match words.next()? {
            "up" => true,
            "dead" => false,
            _ => return None,
        };
        Some(Node { name, address, pid, alive })
    }
}

pub struct State {
    name: String,
    dir: PathBuf,
}

impl State {
    pub fn named(name: &str) -> Result<State> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(plain) {
            return Err(Error::Refused(format!(
                "'{name}' cannot name a cluster: letters, digits and '-', 32 at most"
            )));
        }
        Ok(State { name: name.to_owned(), dir: ordinary::base().join(name) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn head(&self) -> String {
        format!("{}-head", self.name)
    }

    /// Makes an empty directory for a new cluster, over the remains of a dead one.
    pub fn make_dir(&self) -> Result<()> {
        if self.is_running() {
            return Err(Error::Busy(format!(
                "the cluster '{0}' is running already: end it with 'scr sim --name {0} stop', or \
                 give another --name",
                self.name
            )));
        }
        let base = ordinary::base();
        ordinary::make_base(&base)?;
        self.remove()?;
        sweep(&base);
        fs::create_dir(&self.dir).map_err(|e| Error::io("cannot create", &self.dir, e))
    }

    pub fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("cannot remove", &self.dir, e))
            }
            _ => Ok(()),
        }
    }

    /// Takes the lock that says "this cluster lives"; it holds until the file is dropped.
    pub fn lock(&self) -> Result<File> {
        let path = self.file("lock");
        let file = File::create(&path).map_err(|e| Error::io("cannot create", &path, e))?;
        file.try_lock().map_err(|_| Error::Busy(format!("{} is locked", path.display())))?;
        Ok(file)
    }

    pub fn is_running(&self) -> bool {
        File::open(self.file("lock"))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Fails, with the way out, unless the cluster runs.
    pub fn require_running(&self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        Err(Error::Missing(format!(
            "no cluster '{}' is running: start one with 'scr sim start 4'",
            self.name
        )))
    }

    /// Writes a file of the directory whole, or not at all.
    pub fn write(&self, name: &str, content: &str) -> Result<()> {
        let (path, temporary) = (self.file(name), self.file(&format!(".{name}.tmp")));
        fs::write(&temporary, content)
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|e| Error::io("cannot write", &path, e))
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.file(name);
        fs::read_to_string(&path).map_err(|e| Error::io("cannot read", &path, e))
    }

    fn read_number(&self, name: &str) -> Result<u64> {
        let text = self.read(name)?;
        let what = || Error::corrupt(self.file(name), "a number was expected");
        text.trim().parse().map_err(|_| what())
    }

    /// Returns true for a cluster of the super-user, false for an ordinary user's.
    pub fn is_roots(&self) -> bool {
        !self.file("home").exists()
    }

    pub fn home(&self) -> String {
        self.read("home").unwrap_or_else(|_| "/root".to_owned())
    }

    pub fn keeper(&self) -> Result<u32> {
        let number = self.read_number("keeper")?;
        u32::try_from(number).map_err(|_| Error::corrupt(self.file("keeper"), "no process number"))
    }

    /// Finds the `/proc` directory of process `pid` of the cluster, seen from inside or from the
    /// host.
    pub fn process(&self, pid: u32) -> Result<PathBuf> {
        let own = fs::metadata("/proc/self/ns/pid")
            .map_err(|e| Error::io("cannot read", "/proc/self/ns/pid", e))?;
        let processes = if own.ino() == self.read_number("inside")? {
            PathBuf::from("/proc")
        } else {
            PathBuf::from("/proc").join(self.keeper()?.to_string()).join("root/proc")
        };
        Ok(processes.join(pid.to_string()))
    }

    pub fn nodes(&self) -> Result<Vec<Node>> {
        let text = self.read("nodes")?;
        let bad = |line: &str| Error::corrupt(self.file("nodes"), format!("line '{line}'"));
        text.lines().map(|line| Node::of_line(line).ok_or_else(|| bad(line))).collect()
    }

    pub fn node(&self, name: &str) -> Result<Node> {
        let nodes = self.nodes()?;
        nodes.iter().find(|node| node.name == name).cloned().ok_or_else(|| {
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            Error::Missing(format!("no node '{name}': there are {}", names.join(", ")))
        })
    }

    /// Writes down the nodes, and the hostfiles that follow from them.
    pub fn record(&self, nodes: &[Node], wanted: usize, slots: usize) -> Result<()> {
        let mut table = String::new();
        for node in nodes {
            table.push_str(&node.line());
            table.push('\n');
        }
        let (mut openmpi, mut mpich) = (String::new(), String::new());
        for node in nodes.iter().filter(|node| node.alive).take(wanted) {
            // Writing to a String cannot fail.
            let _ = writeln!(openmpi, "{} slots={slots}", node.name);
            let _ = writeln!(mpich, "{}:{slots}", node.name);
        }
        self.write("hostfile.openmpi", &openmpi)?;
        self.write("hostfile.mpich", &mpich)?;
        self.write("nodes", &table)
    }

    /// Writes down what the nodes share of the directories that they have for themselves.
    pub fn record_shared(&self, directories: &[PathBuf]) -> Result<()> {
        let lines = directories.iter().map(|path| format!("{}\n", path.display()));
        self.write("share", &lines.collect::<String>())
    }

    /// Tells whether all nodes see the same below `directory`.
    pub fn all_see(&self, directory: &Path) -> bool {
        let shared = self.read("share").unwrap_or_default();
        !places::is_private(directory) || shared.lines().any(|path| directory.starts_with(path))
    }

    /// Reads the number of nodes that a program is started on by default: all but the spare ones.
    pub fn wanted(&self) -> Result<usize> {
        let number = self.read_number("wanted")?;
        usize::try_from(number).map_err(|_| Error::corrupt(self.file("wanted"), "too large"))
    }
}

/// Removes the directories of clusters that had been started, long ago, and whose keeper was
/// killed. Nobody is hurt by one that stays, so errors are not told.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for dir in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let old = |path: &Path| {
            let written = fs::metadata(path).and_then(|found| found.modified());
            written.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > SWEEP_AGE))
        };
        let state = State { name: String::new(), dir };
        if old(&state.file("nodes")) && old(&state.dir) && !state.is_running() {
            let _ = state.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_dead_clusters_are_swept() {
        let base = tempfile::tempdir().unwrap();
        let dir = |name: &str| {
            let dir = base.path().join(name);
            fs::create_dir(&dir).unwrap();
            State { name: name.to_owned(), dir }
        };
        let age = |path: &Path| {
            let file = File::open(path).unwrap();
            file.set_modified(std::time::SystemTime::now() - 2 * SWEEP_AGE).unwrap();
        };
        let (dead, alive, starting, fresh) = (dir("a"), dir("b"), dir("c"), dir("d"));
        let _lock = alive.lock().unwrap();
        for state in [&dead, &alive, &fresh] {
            state.write("nodes", "").unwrap();
        }
        for state in [&dead, &alive] {
            age(&state.file("nodes"));
        }
        for state in [&dead, &alive, &starting] {
            age(&state.dir);
        }
        sweep(base.path());
        let exists: Vec<bool> =
            [&dead, &alive, &starting, &fresh].iter().map(|state| state.dir.exists()).collect();
        assert_eq!(exists, [false, true, true, true]);
    }

    #[test]
    fn a_line_of_the_table_reads_back() {
        let node =
            Node { name: "node3".into(), address: "10.77.0.3".into(), pid: 17, alive: false };
        assert_eq!(Node::of_line(&node.line()), Some(node));
        assert_eq!(Node::of_line("node3 10.77.0.3 x up"), None);
        assert_eq!(Node::of_line("node3 10.77.0.3 17 ill"), None);
        assert_eq!(Node::of_line(""), None);
    }

    #[test]
    fn a_name_cannot_leave_the_base_directory() {
        assert!(State::named("../etc").is_err());
        assert!(State::named("").is_err());
        assert!(State::named("a-1").is_ok());
    }
}
