//! Everything of a rank that changes while the program runs, and that its calls need together.
//!
//! Invariants:
//! * One lock guards the state. It is never held across communication or a wait; what a thread
//!   renames on the PFS meanwhile is noted beside it (`shared.rs`).
//! * Only sync points, start and finish communicate.
//! * When the cache fails a rank for good, routing ends for it, with one message, and for the
//!   others when they hear of it; agreements go on, since the other ranks count on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scr_abi::accesses::{AccessLog, trait_bit};

use crate::cache::{Catalog, NodeCatalog, Prepared};
use crate::error::{Error, Result};
use crate::handles::{
    AccessLogs, Checksums, GroupCalls, Holding, LiesAt, PartedFiles, TOKEN_LAZY, Tokens, Tracked,
    stamp,
};
use crate::machine::{
    DatasetKey, DatasetState, Deletion, FileRef, Intent, Machine, Placed, Placement, Reason,
};
use crate::namespace::{
    self as ns, Answer, Claimed, FarMessage, JoinedNames, Move, MoveNotes, Notice, SHADOWS, Sought,
    ToldElsewhere, Turns, View,
};
use crate::parts::{Extents, PartHere};
use crate::records::FileMeta;
use crate::system::monotonic_ms;

/// What was told of renamed directories, and is to be.
#[derive(Debug, Default)]
pub(crate) struct NameNews {
    /// By this rank.
    pub made: u64,
    /// Of them, those that no agreement has told yet.
    pub untold: Vec<Move>,
    /// Series and template of what the others are to learn from them.
    pub learned: Vec<(usize, String)>,
    /// Rank and number of those that ranks of this node have told, and no agreement yet.
    pub heard: BTreeSet<(usize, u64)>,
    pub noted: MoveNotes,
    /// What other nodes know of names on this rank.
    pub elsewhere: ToldElsewhere,
    /// The last of them that was told at an agreement, until the next one.
    pub told: u64,
}

#[derive(Debug, Default)]
pub(crate) struct RankFiles {
    pub holdings: BTreeMap<DatasetKey, Holding>,
    pub tokens: Tokens,
    /// Of files that are watched.
    pub logs: AccessLogs,
    /// Files of datasets in progress that several nodes write.
    pub parted: PartedFiles,
    /// Files on the PFS that children of this rank have written, and no rank.
    pub by_children: BTreeSet<String>,
    pub groups: GroupCalls,
    /// The file that this rank and others are making by MPI_File_open: one of them makes it, and
    /// the others open it in the same call.
    pub making: Option<String>,
    pub joined: JoinedNames,
    /// Of files that need not be read at the seal.
    pub checksums: Checksums,
}

#[derive(Debug, Default)]
pub(crate) struct NodeMates {
    /// Files of which this rank has a private copy and that another one writes, if it is known.
    pub co_writers: BTreeMap<String, Option<usize>>,
    /// What they have claimed, and not said yet what has come of it.
    pub claims: BTreeMap<(String, usize), Claimed>,
    pub turns: Turns,
}

pub(crate) struct State {
    pub machine: Machine,
    pub view: View,
    pub own: RankFiles,
    pub mates: NodeMates,
    pub moves: NameNews,
}

impl RankFiles {
    /// Gives out a token for a descriptor, which has a log if its file is watched.
    pub fn issue(&mut self, tracked: Tracked, log: Option<&'static AccessLog>) -> u64 {
        let Some(log) = log else { return self.tokens.issue(tracked) };
        let token = self.tokens.issue_logged(tracked, 0);
        self.logs.begin(token, log);
        token
    }

    /// Makes `token` stand for what `own` stood for. `false`: nobody would ever take it back.
    pub fn replace(&mut self, token: u64, own: u64) -> bool {
        let replaced = self.tokens.replace(token, own);
        if replaced {
            self.logs.leave(token);
            self.logs.move_to(token, own);
        }
        replaced
    }

    /// Tells whether this rank answers for the file `name` of `key`.
    pub fn has(&self, key: &DatasetKey, name: &str) -> bool {
        self.holdings.get(key).is_some_and(|holding| holding.files.contains(name))
    }
}

impl State {
    /// Enters `name`, which is seen in the dataset or, with `on_prefix`, on the PFS.
    pub fn enter_file(&mut self, key: &DatasetKey, name: &str, on_prefix: bool) {
        self.own.holdings.entry(key.clone()).or_default().files.insert(name.to_string());
        self.view.enter(key, name, on_prefix);
    }

    /// Notes that this `rank` writes a file of `key`, too, which another one of its node has made:
    /// the lowest of them answers for it.
    pub fn join_file(&mut self, key: &DatasetKey, name: &str, on_prefix: bool, rank: usize) {
        if !on_prefix && self.view.is_lowest(rank, key, name) {
            self.machine.answer_for(key, name);
            self.enter_file(key, name, false);
            self.view.tell_answers(name);
        } else {
            self.view.revive(name); // who counts on its content is to know
        }
    }

    /// Returns the file of a token, if each node has a part of it.
    pub fn part_of(&self, token: u64) -> Option<(DatasetKey, String)> {
        let is_parted = |log: &&AccessLog| log.traits() & trait_bit::PARTED != 0;
        self.own.logs.of(token).filter(is_parted)?;
        let one = self.own.tokens.get(token).filter(|one| !matches!(one.way, LiesAt::Part(_)))?;
        Some((one.key.clone(), one.name.clone()))
    }

    /// Forgets the logs of a dataset's files that several nodes have written: it is complete, or
    /// given up.
    pub fn end_parted(&mut self, key: &DatasetKey) {
        for (name, log) in self.own.parted.end(key) {
            if self.own.tokens.count(&name) == 0 {
                self.own.logs.give_back(log);
            }
        }
    }

    /// Tells whether the dataset is in progress, as far as this rank knows.
    pub fn is_open(&self, key: &DatasetKey) -> bool {
        let mut known = self.machine.datasets(key.series).iter();
        let shared = known.find(|known| known.key == *key);
        self.own.holdings.get(key).is_none_or(|holding| holding.id == 0)
            && shared.is_none_or(|shared| shared.state == DatasetState::Open)
    }

    /// Notes that the directory has its final name, and what files everybody has.
    pub fn show_sealed(&mut self, key: &DatasetKey, sealed: &Prepared) {
        if self.view.layer(key).is_none() {
            self.view.put(ns::Layer::new(key.clone(), sealed.sealed_dir.clone()));
        }
        let holding = self.own.holdings.entry(key.clone()).or_default();
        holding.id = sealed.id;
        holding.epoch = sealed.epoch;
        holding.redundancy_bytes = sealed.redundancy_bytes;
        for name in self.own.parted.names(key) {
            // From now on nobody has it as a whole.
            holding.files.remove(&name);
        }
        self.own.parted.seal(key);
        self.end_parted(key);
        self.view.show(key, &sealed.catalog);
        if let Some(layer) = self.view.layer_mut(key) {
            layer.dir = sealed.sealed_dir.clone();
        }
    }

    /// Tells whether a dataset's directory may have got its final name without this rank's knowing.
    pub fn is_committing(&self) -> bool {
        let is_open = |key| self.own.holdings.get(key).is_none_or(|holding| holding.id == 0);
        self.machine.voted().any(is_open)
    }

    pub fn leave_file(&mut self, key: &DatasetKey, name: &str) {
        if let Some(holding) = self.own.holdings.get_mut(key) {
            holding.files.remove(name);
        }
        if let Some(layer) = self.view.layer_mut(key) {
            layer.set_on_prefix(name, false);
        }
    }

    pub fn leave_all(&mut self, name: &str) {
        let keys: Vec<_> = self.own.holdings.keys().cloned().collect();
        keys.iter().for_each(|key| self.leave_file(key, name));
    }

    /// Finds the cached dataset with the newest content of `name`, if another rank has written it.
    pub fn of_another<'a>(&self, sought: impl Into<Sought<'a>>) -> Option<DatasetKey> {
        let sought = sought.into();
        let (name, key) = (sought.name, self.view.cached_in(sought)?);
        (!self.own.has(key, name) && !self.view.is_absent(name)).then(|| key.clone())
    }

    /// Tells whether the PFS has the file of `key` with this content, or had it.
    pub fn has_come(&self, key: &DatasetKey, content: &FileMeta) -> bool {
        self.own.parted.is_outside(key, &content.name) || self.view.has_come(key, content)
    }

    /// Notes that the program deletes `file`, which is seen at `place`.
    pub fn deleted_at(&mut self, file: &FileRef, place: &ns::Place) -> Deletion {
        let is_held = self.own.holdings.values().any(|one| one.files.contains(&file.name));
        if self.own.by_children.remove(&file.name) && !is_held && *place == ns::Place::Prefix {
            return Deletion::Now; // no checkpoint has it, or will
        }
        let left = *place == ns::Place::Prefix && self.machine.is_left_behind(file);
        let told = self.machine.deleted(file, monotonic_ms());
        if left { Deletion::Now } else { told }
    }

    /// Notes that another rank or a child may write the file.
    pub fn doubt(&mut self, name: &str) {
        let held = self.own.holdings.values().any(|holding| holding.files.contains(name));
        let open = self.own.tokens.doubt(name);
        if held || open {
            self.own.checksums.doubt(name);
        }
    }

    /// Notes that the prefix has the file, which stays in its dataset.
    pub fn now_on_prefix(&mut self, key: &DatasetKey, name: &str, reason: Reason) {
        self.machine.moved_to_prefix(key, name, reason);
        self.enter_file(key, name, true);
    }

    /// Notes that `rank` writes a file of which this one may have a private copy.
    pub fn note_co_writer(&mut self, name: &str, rank: usize) {
        if self.own.tokens.shadow_of(name).is_some() {
            self.mates.co_writers.insert(name.to_string(), Some(rank));
        }
    }

    /// Notes that nobody knows any more what the others do.
    pub fn note_all_co_writers(&mut self) {
        for name in self.own.tokens.shadow_names() {
            self.mates.co_writers.entry(name).or_default();
        }
    }

    /// Finds the dataset in progress that has the file, which is seen at `place` and which several
    /// nodes write, each its part.
    pub fn parted_in(&self, file: &FileRef, place: &ns::Place) -> Option<DatasetKey> {
        let (ns::Place::Cached(key, _) | ns::Place::Elsewhere(key, _)) = place else { return None };
        let known = self.own.parted.get(key, &file.name).is_some();
        let is_parted = known || self.machine.is_parted(file) && !self.is_outside(key, &file.name);
        (is_parted && self.machine.is_in_progress(key)).then(|| key.clone())
    }

    /// Tells whether whoever changes the file in this dataset does so on the PFS: all ranks have
    /// brought it there; or it was sealed in parts, and the dataset is open again. What the caches
    /// have stays as it was sealed.
    pub fn is_outside(&self, key: &DatasetKey, name: &str) -> bool {
        self.own.parted.is_outside(key, name) || self.is_sealed_in_parts(key, name)
    }

    fn is_sealed_in_parts(&self, key: &DatasetKey, name: &str) -> bool {
        let catalog = self.view.layer(key).and_then(ns::Layer::catalog);
        let in_parts = |all: &NodeCatalog| all.named(name).iter().any(|one| one.meta.is_shared);
        catalog.is_some_and(in_parts)
    }

    /// Tells whether each node has a part of the file, which is being written, or was sealed.
    pub fn is_parted(&self, key: &DatasetKey, name: &str) -> bool {
        let written = self.own.parted.get(key, name).is_some();
        let left = || self.own.parted.is_outside(key, name);
        written || !left() && self.is_sealed_in_parts(key, name)
    }

    /// Tells whether this rank has written a file on the PFS, where it found older content, of
    /// which others may have parts in their caches.
    pub fn wrote_outside(&self, key: &DatasetKey, file: &FileRef) -> bool {
        let (parted, name) = (&self.own.parted, &file.name);
        parted.get(key, name).and_then(|file| file.log).is_none()
            && !self.is_outside(key, name)
            && matches!(
                self.machine.reason_of(key, name),
                Some(Reason::Follows | Reason::LeftCaches)
            )
            && self.machine.is_parted(file)
    }

    /// Opens a file that could be written and mostly is only read, on the copy at `origin` itself.
    pub fn open_lazily(&mut self, name: &str, from: &DatasetKey, origin: &Path) -> Answer {
        let way = LiesAt::Lazy { stamp: stamp(origin), kept: None };
        let token = self.own.tokens.issue(Tracked::new(from, name, way));
        Answer::Redirect { path: origin.to_path_buf(), token }
    }

    /// Renames a directory or file in the caches; another rank of the node may have done so.
    ///
    /// # Errors
    /// What is there cannot be renamed.
    pub fn rename_in_caches(&self, one: &Move) -> Result<()> {
        for layer in self.view.layers().iter().filter(|layer| self.is_open(&layer.key)) {
            let (from, to) = (layer.dir.join(&one.from), layer.dir.join(&one.to));
            if from.symlink_metadata().is_err() {
                continue;
            }
            ns::make_parents(&layer.dir, &one.to)?;
            match std::fs::rename(&from, &to) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("cannot rename", &from, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells whether another rank makes the file by the call of MPI-IO that this one is in, too,
    /// and each node is to have its part.
    pub fn makes_parted(&self, file: &FileRef) -> bool {
        self.own.making.as_deref() == Some(&*file.name) && self.machine.is_parted(file)
    }

    /// Gives up the checkpoint of a file that could not leave the cache.
    pub fn could_not_move(&mut self, tracked: &Tracked, error: &Error) {
        let text = format!("{} could not be moved out of the cache: {error}", tracked.name);
        self.machine.failed(&tracked.key, &text, monotonic_ms());
    }

    /// Takes in what a rank of another node tells of names.
    pub fn hear_of_names(&mut self, rank: usize, news: &FarMessage, made_here: &BTreeSet<String>) {
        news.named("LAID").for_each(|name| self.view.laid_elsewhere(&name));
        news.named("ON_PREFIX").for_each(|name| self.view.left_elsewhere(&name));
        for name in news.named("DELETED").filter(|name| !made_here.contains(name)) {
            self.view.deleted_elsewhere(rank, &name);
        }
        news.named("SETTLED").for_each(|name| self.view.hear(rank, Notice::Settled(name), None));
    }

    /// Opens what an earlier checkpoint has under the name of a file of which each node will have
    /// its part. It may be emptied first, as HDF5 does it, and nobody needs to bring it here then.
    pub fn open_older(
        &mut self,
        file: &FileRef,
        place: &ns::Place,
        on_prefix: PathBuf,
    ) -> Option<Answer> {
        if *place != ns::Place::Prefix {
            return self.open_part_lazily(&file.name, place);
        }
        let older = Tracked::new(&self.machine.target(file), &file.name, LiesAt::Older);
        Some(Answer::Redirect { path: on_prefix, token: self.own.tokens.issue(older) })
    }

    /// Opens, to be read, a file that was sealed in parts: what this node has is read here, and the
    /// prefix is needed for the rest alone. `None`: this node has nothing of it.
    pub fn open_sealed_part(&mut self, name: &str, place: &ns::Place) -> Option<Answer> {
        let ns::Place::Elsewhere(key, _) = place else { return None };
        let here = self.own.parted.sealed(key, name).filter(|here| !here.extents.is_empty())?;
        self.open_part_of(key, name, here, 0)
    }

    /// Opens one, of this launch, too, whose next version is written in parts. As long as it is not
    /// changed what this node cannot know of it is read on the prefix.
    fn open_part_lazily(&mut self, name: &str, place: &ns::Place) -> Option<Answer> {
        let ns::Place::Elsewhere(key, remote) = place else { return None };
        let nothing = PartHere { extents: Extents::default(), whole: remote.meta.size };
        let here = self.own.parted.sealed(key, name).unwrap_or_else(|| Arc::new(nothing));
        self.open_part_of(key, name, here, TOKEN_LAZY)
    }

    fn open_part_of(
        &mut self,
        key: &DatasetKey,
        name: &str,
        here: Arc<PartHere>,
        marks: u64,
    ) -> Option<Answer> {
        let path = self.view.layer(key)?.dir.join(name);
        let log = if path.exists() { self.own.logs.take()? } else { return None };
        log.mark(trait_bit::PARTED);
        let tracked = Tracked::new(key, name, LiesAt::Part(here));
        let token = self.own.tokens.issue_logged(tracked, marks);
        self.own.logs.begin(token, log);
        Some(Answer::Redirect { path, token })
    }

    /// Takes a change of `file`, which this rank has sealed itself in `of`: on the PFS, and not in
    /// a private copy, if others are known to change such files.
    pub fn take_over_own(
        &mut self,
        file: &FileRef,
        of: &DatasetKey,
        wish: Intent,
    ) -> Option<Placed> {
        if !self.machine.is_shared(file, of) {
            return None;
        }
        for key in self.machine.taken_just_now(file) {
            self.own.holdings.entry(key).or_default().files.insert(file.name.clone());
        }
        match self.machine.take_over(file, of, wish, monotonic_ms()) {
            Placement::Dataset(placed) => Some(placed),
            Placement::Pass | Placement::CopyUp { .. } => None,
        }
    }

    /// Tells whether the dataset of a reader has gone, and nothing newer has taken its file's name.
    pub fn is_evicted(&self, tracked: &Tracked) -> bool {
        let place = || self.view.place(&tracked.name);
        self.view.layer(&tracked.key).is_none()
            && matches!(place(), ns::Place::Evicted(_) | ns::Place::Prefix)
    }

    /// Forgets copies whose files have lost their name: no change of them counts any more.
    pub fn forget_shadows(&mut self, tokens: &[u64]) {
        for token in tokens {
            let way = self.own.tokens.take(*token).map(|tracked| tracked.way);
            if let Some(LiesAt::Shadow { copy, origin, .. }) = way {
                let _ = ns::remove(&copy);
                self.let_go(Some(&origin));
            }
        }
    }

    /// Removes the name that an eviction has left, unless another reader needs it.
    pub fn let_go(&self, kept: Option<&Path>) {
        let is_ours = |path: &&Path| path.parent().is_some_and(|folder| folder.ends_with(SHADOWS));
        let kept = kept.filter(is_ours);
        let needs = |way: &LiesAt| match way {
            LiesAt::Lazy { kept: other, .. } => other.as_deref() == kept,
            LiesAt::Shadow { origin, .. } => Some(origin.as_path()) == kept,
            _ => false,
        };
        if let Some(kept) = kept.filter(|_| !self.own.tokens.all().any(|(_, one)| needs(&one.way)))
        {
            let _ = ns::remove(kept);
        }
    }

    /// Lets the dataset's names outlive their content until the program deletes them, unless the
    /// PFS or a newer dataset has it. Returns all of them: deletions of those of which the PFS has
    /// nothing are real once all ranks of the node have been here.
    pub fn leave_evicted_names(&mut self, key: &DatasetKey) -> Vec<String> {
        let mut gone = Vec::new();
        let Some(layer) = self.view.layer(key) else { return gone };
        let flushed = self.own.holdings.get(key).is_some_and(|holding| holding.flushed);
        let read = || Some(NodeCatalog::of(&Catalog::read(&layer.dir).ok().flatten()?, &[]));
        let Some(catalog) = layer.catalog().cloned().or_else(read) else { return gone };
        for entry in catalog.entries() {
            let name = entry.meta.name.clone();
            gone.push(name.clone());
            if flushed || entry.meta.on_prefix {
                continue;
            }
            // Deleted by any rank of the node: at its deletion, or since the catalog was made.
            let deleted = self.view.is_deleted(&name)
                || self.view.layer(key).is_none_or(|it| !it.has(&name) || it.is_on_prefix(&name));
            let is_final =
                |newer: &DatasetKey| self.machine.state_of(newer) == Some(DatasetState::Confirmed);
            if deleted || self.view.is_in_newer(key, &name, is_final) {
                continue;
            }
            let remote = ns::Remote { owner: entry.rank, meta: entry.meta };
            self.view.leave_evicted(name, remote.attributes());
        }
        gone
    }

    /// Puts renamed directories that nobody was told of into a message.
    pub fn take_moves(&mut self, message: &mut FarMessage) {
        std::mem::take(&mut self.moves.untold).iter().for_each(|one| message.moved(one));
        for (series, template) in std::mem::take(&mut self.moves.learned) {
            message.learned(series, &template);
        }
    }

    /// Tells whether a dataset in progress has the file: who deletes one of those tells so in the
    /// next conference. What is `on_prefix` as it was when it was deleted waits for the next one.
    pub fn is_made_here(&self, name: &str, on_prefix: &Path) -> bool {
        let is_old = || self.view.old(name).is_some_and(|old| ns::look_at(on_prefix) == *old);
        let open = self.view.layers().iter().filter(|layer| {
            self.own.holdings.get(&layer.key).is_none_or(|holding| holding.id == 0)
        });
        let mut made = open.map(|layer| match layer.dir.join(name).symlink_metadata() {
            Ok(_) => true,
            Err(_) => layer.is_on_prefix(name) && !is_old(),
        });
        made.any(|made| made)
    }
}
