//! A log in shared memory, in which the ranks of a node tell one another of names.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::notices::{Notice, WriteClaim};
use crate::comm::Comm;
use crate::error::Result;
use crate::files::remove_file_if_there;
use crate::log;
use crate::system::{SharedLog, Telling};

/// The file's name in the control directory; it is there only while the ranks start.
const FILE: &str = "names";

#[derive(Default)]
pub struct Neighbours {
    pub(crate) log: OnceLock<SharedLog>,
    ranks: OnceLock<Vec<usize>>,
    /// Heard up to here. Changed with the state locked.
    pub(crate) place: AtomicU64,
    /// Stands in for the count of the log.
    own_turns: AtomicU64,
}

impl Neighbours {
    /// Opens the log of this launch for the `ranks` of this node. Collective over `node`. Without a
    /// log, what others do is seen when it is agreed on.
    pub fn meet(&self, control_dir: &Path, node: &dyn Comm, ranks: &[usize]) -> Result<()> {
        if ranks.len() < 2 {
            return Ok(());
        }
        let (path, leads) = (control_dir.join(FILE), node.rank() == 0);
        let made = !leads || make(&path);
        node.all_max(&mut [0])?; // it is there
        let log = if made { SharedLog::open(&path).ok() } else { None };
        let mut missing = [i64::from(log.is_none())];
        node.all_max(&mut missing)?;
        if leads {
            let _ = remove_file_if_there(&path); // the next start does it
        }
        let _ = self.ranks.set(ranks.to_vec());
        match log.filter(|_| missing == [0]) {
            Some(log) => drop(self.log.set(log)),
            None => log::message(1, format_args!("{} cannot be shared", path.display())),
        }
        Ok(())
    }

    pub fn ranks(&self) -> &[usize] {
        self.ranks.get().map_or(&[], Vec::as_slice)
    }

    /// Counts the turns of this node's ranks: who finds nothing under a name while this grows has
    /// looked at something that was about to change.
    pub fn turns(&self) -> &AtomicU64 {
        self.log.get().map_or(&self.own_turns, SharedLog::count)
    }

    /// Tells the others that this `rank` is about to write a file, or takes a turn. `false`: it has
    /// not heard all, and they have not, either.
    pub fn announce(&self, told: &Notice, rank: usize) -> bool {
        let Some(log) = self.log.get() else { return true };
        // One too long waits for the agreement.
        log.tell_at(self.place.load(Ordering::Relaxed), &told.to_bytes(rank)) != Telling::Late
    }

    pub fn tell(&self, told: &[Notice], rank: usize) {
        if let Some(log) = self.log.get() {
            for told in told {
                let _ = log.tell(&told.to_bytes(rank)); // a name too long waits for the agreement
            }
        }
    }
}

fn make(path: &Path) -> bool {
    remove_file_if_there(path).is_ok() && SharedLog::create(path).is_ok()
}

#[derive(Debug, Default)]
pub struct NodeNews {
    /// Files that others have made, or begun to write.
    pub written: Vec<(String, usize)>,
    pub missed: bool,
}

impl NodeNews {
    /// Tells whether another rank may have begun to write `name`.
    pub fn of(&self, name: &str) -> bool {
        self.missed || self.writer_of(name).is_some()
    }

    pub fn writer_of(&self, name: &str) -> Option<usize> {
        let mut writers = self.written.iter();
        writers.find(|(one, _)| one == name).map(|(_, rank)| *rank)
    }
}

/// A name that another rank of the node has claimed, until it says what has come of it.
#[derive(Debug)]
pub struct Claimed {
    pub claim: WriteClaim,
    /// It counts as done here: what the rank will say is known.
    pub honoured: bool,
    pub heard: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads::run;
    use crate::system::HeardInLog;

    #[test]
    fn ranks_of_a_node_hear_what_one_of_them_tells() {
        let dir = tempfile::tempdir().unwrap();
        let heard = run(3, |node| {
            let neighbours = Neighbours::default();
            neighbours.meet(dir.path(), node.as_ref(), &[4, 5, 6]).unwrap();
            assert_eq!(neighbours.ranks(), [4, 5, 6]);
            if node.rank() == 1 {
                neighbours.tell(&[Notice::Deleted("a".into()), Notice::Made("b".into())], 5);
            }
            node.barrier().unwrap(); // it has told
            let (log, mut place) = (neighbours.log.get().unwrap(), 0);
            place += neighbours.place.load(Ordering::Relaxed);
            let mut all = Vec::new();
            while let HeardInLog::Message(bytes) = log.hear(&mut place) {
                all.extend(Notice::from_bytes(&bytes));
            }
            all
        });
        let told = [(5, Notice::Deleted("a".into())), (5, Notice::Made("b".into()))];
        assert!(heard.iter().all(|all| *all == told), "{heard:?}");
        assert!(!dir.path().join(FILE).exists(), "it is there while the ranks start only");
    }

    #[test]
    fn a_rank_alone_on_its_node_has_nobody_to_tell() {
        let dir = tempfile::tempdir().unwrap();
        run(1, |node| {
            let neighbours = Neighbours::default();
            neighbours.meet(dir.path(), node.as_ref(), &[0]).unwrap();
            assert!(neighbours.ranks().is_empty() && neighbours.log.get().is_none());
            neighbours.tell(&[Notice::Deleted("a".into())], 0);
        });
    }

    #[test]
    fn who_has_missed_something_takes_every_name_for_written() {
        let mut news = NodeNews { written: vec![("a".into(), 2)], missed: false };
        assert_eq!((news.writer_of("a"), news.of("a"), news.of("b")), (Some(2), true, false));
        news.missed = true;
        assert!(news.of("b") && news.writer_of("b").is_none());
    }
}
