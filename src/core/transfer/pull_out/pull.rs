//! All ranks of a job bring one file to the prefix.
//!
//! | in the folder | told by | what |
//! |---|---|---|
//! | `list/<rank>` | each rank, its writers stand still | its log; whether its node has a file |
//! | `staged/<node>` | the lowest rank of a node that has a file | how long that is |
//! | `left/<rank>` | each rank that has nothing open on its node's file any more | |
//! | `outcome` | who has given the file its name, or given up | size and conflicts, or why |
//!
//! Who gives the file its name has to get that of `outcome` before, and so has who gives up: so
//! there is one outcome, and all ranks have the same.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::board::Board;
use super::told::{PulledOut, RankLists};
use crate::bytes::{Reader, Writer};
use crate::cache::disk::describe;
use crate::error::{Error, Result, again};
use crate::files::{CopyOptions, crc32, create_dirs, sync_dir};
use crate::parts::{Extent, Extents, NodeLog, Resolved};
use crate::records::{FileMeta, FilePart};
use crate::transfer::prefix::paths::OWN_MODE;
use crate::transfer::publish::parts::{finish_whole, write_part};
use crate::transfer::publish::single::StagedNote;
use crate::transfer::publish::stage::remove_staged;
use crate::transfer::publish::staged::staged_path;

const OUTCOME: &str = "outcome";

fn list_of(rank: usize) -> String {
    format!("list/{rank}")
}

fn staged_of(node: usize) -> String {
    format!("staged/{node}")
}

fn left_of(rank: usize) -> String {
    format!("left/{rank}")
}

/// Tells in the folder `meeting` that the rank has nothing open on its node's file any more.
pub(super) fn leave(meeting: &Path, rank: usize) -> Result<()> {
    Board(meeting).tell(&left_of(rank), &[])
}

/// Tells whether all ranks have told so.
pub(super) fn have_left(meeting: &Path, ranks: usize) -> bool {
    let has = |rank: usize| Board(meeting).told(&left_of(rank)).is_ok_and(|told| told.is_some());
    (0..ranks).all(has)
}

/// A file that all ranks bring to the prefix.
#[derive(Debug, Clone, Copy)]
pub struct PullOut<'a> {
    /// The prefix.
    pub prefix: &'a Path,
    /// Where the ranks meet, below the prefix: a folder for this file alone.
    pub folder: &'a Path,
    /// The place of the file below the prefix.
    pub target: &'a Path,
    /// This rank.
    pub rank: usize,
    /// The node of each rank of the job.
    pub nodes: &'a [usize],
    /// So long nobody waits in vain; for an outcome that is on its way, as long again.
    pub deadline: Duration,
}

/// What a rank has staged; the note is there until the file has its name.
struct StagedPart {
    epoch: u64,
    note: Option<StagedNote>,
}

impl PullOut<'_> {
    /// Asks all ranks for it.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn ask(&self) -> Result<()> {
        ["list", "staged", "left"]
            .iter()
            .try_for_each(|one| create_dirs(&self.folder.join(one), OWN_MODE))
    }

    /// Takes part, and returns when the file has its name on the prefix. The writers of this rank
    /// stand still: `own` is what they have done, `container` the file of the node if there is
    /// one, whichever of its ranks has made it. A second thread of the rank may call it, too, and
    /// waits for the first.
    ///
    /// # Errors
    /// On all ranks if one of them cannot do its part, or has not come in time. What has that name
    /// on the prefix is untouched then, but if the disk fails after the renaming.
    pub fn join(&self, own: &NodeLog, container: Option<&Path>) -> Result<PulledOut> {
        let (until, mut staged) = (Instant::now() + self.deadline, None);
        let done = self
            .take_part(own, container, until, &mut staged)
            .and_then(|()| self.outcome(until))
            .or_else(|error| self.give_up(error));
        if let Some(StagedPart { epoch, note }) = staged {
            // What cannot be removed the next start removes, since the note names it.
            let is_left = done.is_err() && remove_staged(self.target, epoch).is_err();
            note.into_iter().filter(|_| !is_left).for_each(StagedNote::remove);
        }
        done
    }

    fn take_part(
        &self,
        own: &NodeLog,
        container: Option<&Path>,
        until: Instant,
        staged: &mut Option<StagedPart>,
    ) -> Result<()> {
        self.ask()?;
        let (board, node) = (self.board(), self.nodes[self.rank]);
        if board.told(&list_of(self.rank))?.is_none() {
            board.tell(&list_of(self.rank), &RankLists::list(own, container.is_some()))?;
        }
        if self.nodes.iter().position(|one| *one == node) != Some(self.rank) {
            return Ok(());
        }
        let names: Vec<String> = (0..self.nodes.len()).map(list_of).collect();
        let Some(told) = self.wait(&names, until)? else { return Ok(()) };
        let lists = RankLists::of(&told, self.nodes)?;
        let whole = lists.settled(&BTreeMap::new());
        self.check(&lists, &whole)?;
        if lists.holders.is_empty() && self.rank == 0 && self.board().claim(OUTCOME)? {
            // Nobody has made it yet.
            self.board().tell(OUTCOME, &PulledOut::told(&Ok(PulledOut::default())))?;
        }
        let Some(container) = container else { return Ok(()) };
        // A second thread must not write what is being renamed.
        if !board.claim(&staged_of(node))? {
            return Ok(());
        }
        let folder = self.folder.file_name().unwrap_or_default();
        let epoch = u64::from(crc32(folder.as_encoded_bytes())) << 32 | u64::from(lists.sum);
        let note = StagedNote::leave(self.prefix, self.target, epoch, node);
        *staged = Some(StagedPart { epoch, note });
        let length = self.stage(container, &whole, epoch)?;
        board.tell(&staged_of(node), &Writer::new().word(length).take())?;
        if lists.holders.first() == Some(&node) {
            self.publish(&lists, container, epoch, until)?;
        }
        Ok(())
    }

    fn board(&self) -> Board<'_> {
        Board(self.folder)
    }

    /// What is written has to be somewhere.
    fn check(&self, lists: &RankLists, whole: &Resolved) -> Result<()> {
        let lacks = |node: &usize| !lists.holders.contains(node) && !whole.owned[*node].is_empty();
        let target = self.target.display();
        match (0..whole.owned.len()).find(lacks) {
            Some(node) => {
                Err(Error::Missing(format!("node {node} has lost its bytes of {target}")))
            }
            None => Ok(()),
        }
    }

    /// Puts the bytes of this node into the staged file; returns how long the node's own is.
    fn stage(&self, container: &Path, whole: &Resolved, epoch: u64) -> Result<u64> {
        let found = fs::metadata(container);
        let length = found.map_err(|error| Error::io("cannot read", container, error))?.len();
        // What is recorded behind its end has been cut off.
        let owned = whole.owned[self.nodes[self.rank]].iter();
        let extents: Extents =
            owned.map(|one| Extent::new(one.begin, one.end.min(length))).collect();
        let (dir, name) = (container.parent(), container.file_name());
        let name = name.and_then(|name| name.to_str()).unwrap_or_default().to_string();
        let size = extents.bytes();
        let part =
            FilePart { of: name.clone(), extents, whole: whole.size, share: None, live: true };
        let part = Box::new(part);
        let file = FileMeta { name, size, part: Some(part.clone()), ..FileMeta::default() };
        if let Some(parent) = self.target.parent() {
            create_dirs(parent, 0o777)?;
        }
        let how = CopyOptions { crc32: false, ..CopyOptions::default() };
        let dir = dir.unwrap_or(Path::new("/"));
        let staged = staged_path(self.target, epoch)?;
        let (_, copy) = write_part(dir, &staged, &file, &part, how)?;
        copy.sync_all().map_err(|error| Error::io("cannot sync", self.target, error))?;
        Ok(length)
    }

    /// Gives the file its name when all bytes are there.
    fn publish(
        &self,
        lists: &RankLists,
        container: &Path,
        epoch: u64,
        until: Instant,
    ) -> Result<()> {
        let names: Vec<String> = lists.holders.iter().copied().map(staged_of).collect();
        let Some(told) = self.wait(&names, until)? else { return Ok(()) };
        let lengths = told.iter().map(|told| Reader::new(told).word().unwrap_or(u64::MAX));
        let Resolved { conflicts, size, .. } =
            lists.settled(&lists.holders.iter().copied().zip(lengths).collect());
        let staged = staged_path(self.target, epoch)?;
        let mut write = OpenOptions::new();
        let opened = write.write(true).custom_flags(libc::O_NOFOLLOW).open(&staged);
        let cut = opened.and_then(|file| file.set_len(size));
        cut.map_err(|error| Error::io("cannot write", &staged, error))?;
        finish_whole(&staged, &describe(container, "")?)?;
        if !self.board().claim(OUTCOME)? {
            return Ok(());
        }
        let ended = match self.name(&staged) {
            Ok(()) => Ok(PulledOut { conflicts, size }),
            Err(error) => Err(self.failure(&error)),
        };
        self.board().tell(OUTCOME, &PulledOut::told(&ended))
    }

    fn name(&self, staged: &Path) -> Result<()> {
        let failed = |error| Error::io("cannot publish", self.target, error);
        again(|| fs::rename(staged, self.target).map_err(failed))?;
        again(|| sync_dir(self.target.parent().unwrap_or(Path::new("/"))))
    }

    /// Tells all that it cannot be done, if nobody has told before how it ends.
    fn give_up(&self, error: Error) -> Result<PulledOut> {
        if self.board().claim(OUTCOME).is_ok_and(|is_ours| is_ours) {
            // Who does not hear of it sees that its time is over.
            let _ = self.board().tell(OUTCOME, &PulledOut::told(&Err(self.failure(&error))));
            return Err(error);
        }
        self.outcome(Instant::now() + self.deadline).or(Err(error))
    }

    fn failure(&self, error: &Error) -> String {
        format!("rank {} on node {}: {error}", self.rank, self.nodes[self.rank])
    }

    /// Waits for how it ends.
    fn outcome(&self, until: Instant) -> Result<PulledOut> {
        self.wait(&[OUTCOME.to_string()], until)?;
        PulledOut::read(&self.board().told(OUTCOME)?.unwrap_or_default())
    }

    /// Waits until all `names` are told; `None` if it is told before how it ends.
    fn wait(&self, names: &[String], until: Instant) -> Result<Option<Vec<Vec<u8>>>> {
        let has_ended = || self.is_told(OUTCOME);
        match self.board().wait(names, || has_ended() || Instant::now() >= until)? {
            None if !has_ended() => Err(Error::Missing(self.silent())),
            told => Ok(told),
        }
    }

    fn is_told(&self, name: &str) -> bool {
        self.board().told(name).is_ok_and(|told| told.is_some())
    }

    /// Says who has not answered.
    fn silent(&self) -> String {
        let within = format!("in {:?}", self.deadline);
        let mut lists = Vec::new();
        for (rank, node) in self.nodes.iter().enumerate() {
            match self.board().told(&list_of(rank)) {
                Ok(Some(list)) => lists.push(list),
                _ => return format!("rank {rank} on node {node} has not answered {within}"),
            }
        }
        let holders =
            RankLists::of(&lists, self.nodes).map(|lists| lists.holders).unwrap_or_default();
        match holders.iter().find(|node| !self.is_told(&staged_of(**node))) {
            Some(node) => format!("node {node} has not written its bytes {within}"),
            None => format!("nobody has given the file its name {within}"),
        }
    }
}
