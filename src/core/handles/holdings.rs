//! What a rank knows of its part of each dataset: its files, and the descriptors open on them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use scr_abi::{TOKEN_LAZY, TOKEN_LOGGED};
use scr_abi::{TOKEN_SHORT, WORTH_BYTES};

use super::base::{Base, Stamp};
use crate::machine::DatasetKey;
use crate::namespace::Move;
use crate::parts::PartHere;

#[derive(Debug, Clone, Default)]
pub struct Holding {
    pub store: String,
    /// The machine knows whether they lie in the cache.
    pub files: BTreeSet<String>,
    pub redundancy_bytes: u64,
    /// Dataset id; 0 until sealed.
    pub id: u64,
    pub epoch: u64,
    /// The PFS has it all.
    pub flushed: bool,
}

/// How a tracked descriptor's file lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiesAt {
    /// In the dataset's directory.
    Cached,
    OnPrefix,
    /// Under a temporary name, in no dataset yet.
    Temporary,
    /// On the sealed copy itself: nothing has been written through it.
    Lazy {
        stamp: Option<Stamp>,
        /// Another name of the file, since its dataset has left the cache.
        kept: Option<PathBuf>,
    },
    /// On what this node has of a sealed file of several nodes: nothing has been written through
    /// it.
    Part(Arc<PartHere>),
    /// On an older file on the PFS whose next version each node will have in part: nothing has been
    /// written through it.
    Older,
    /// A private copy; only if it differs from `origin` at the close it becomes the file.
    Shadow {
        copy: PathBuf,
        origin: PathBuf,
        /// That file, while `origin` was the one that the name leads to.
        base: Option<Base>,
    },
}

impl LiesAt {
    /// Tells whether it is an older file of several nodes.
    pub fn is_older(&self) -> bool {
        matches!(self, LiesAt::Part(_) | LiesAt::Older)
    }

    /// Tells whether nothing has been written through the descriptor.
    pub fn only_reads(&self) -> bool {
        matches!(self, LiesAt::Lazy { .. } | LiesAt::Part(_) | LiesAt::Older)
    }
}

/// Room in the store for a file that is open, bytes from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// What it is expected to take, and has not been set aside for it.
    pub expected: u64,
    /// That is to be set aside as soon as the file is open.
    pub wanted: bool,
    /// Set aside up to here.
    pub reserved: u64,
}

/// A descriptor that the program has open for writing on a file of ours.
#[derive(Debug, Clone)]
pub struct Tracked {
    /// The dataset; for a shadow, the one that it would go to.
    pub key: DatasetKey,
    /// Name relative to the prefix.
    pub name: String,
    pub way: LiesAt,
    /// This open made the file.
    pub made: bool,
    pub room: Room,
    /// Making it durable has failed: it goes to the PFS at its close.
    pub distrusted: bool,
    /// Somebody else may write the file, too.
    pub doubted: bool,
    pub in_order: bool,
}

impl Tracked {
    pub fn new(key: &DatasetKey, name: &str, way: LiesAt) -> Tracked {
        let (key, name) = (key.clone(), name.to_string());
        let room = Room::default();
        let (made, distrusted, doubted, in_order) = (false, false, false, false);
        Tracked { key, name, way, made, room, distrusted, doubted, in_order }
    }

    /// Tells whether the file has lost its name. What it is called instead is no name below the
    /// prefix, and the same for all that are open on it.
    pub fn is_orphan(&self) -> bool {
        self.name.starts_with('/')
    }
}

#[derive(Debug, Default)]
pub struct Tokens {
    next: u64,
    by_token: HashMap<u64, Tracked>,
}

impl Tokens {
    /// Returns a token that is never 0, with [`TOKEN_LAZY`] if the descriptor must not change its
    /// file yet, and [`TOKEN_SHORT`] if the file is expected to be short.
    pub fn issue(&mut self, tracked: Tracked) -> u64 {
        self.next += 1;
        let token = match tracked.way {
            LiesAt::Lazy { .. } | LiesAt::Older => self.next | TOKEN_LAZY,
            _ if (1..WORTH_BYTES).contains(&tracked.room.expected) => self.next | TOKEN_SHORT,
            _ => self.next,
        };
        self.by_token.insert(token, tracked);
        token
    }

    /// Gives out a token for a descriptor whose reads and writes are logged, with these `marks`,
    /// too.
    pub fn issue_logged(&mut self, tracked: Tracked, marks: u64) -> u64 {
        self.next += 1;
        let token = self.next | TOKEN_LOGGED | marks;
        self.by_token.insert(token, tracked);
        token
    }

    pub fn lazy(&self, which: impl Fn(&Tracked) -> bool) -> Vec<u64> {
        let lazy = |token: u64, one: &Tracked| match one.way {
            LiesAt::Lazy { .. } | LiesAt::Older => true,
            LiesAt::Part(_) => token & TOKEN_LAZY != 0,
            _ => false,
        };
        let all = self.all().filter(|(token, one)| lazy(*token, one) && which(one));
        all.map(|(token, _)| token).collect()
    }

    /// Makes `token` stand for what `own` stood for. `false`: nobody would ever take `token` back.
    pub fn replace(&mut self, token: u64, own: u64) -> bool {
        if !self.by_token.contains_key(&token) {
            return false;
        }
        if let Some(tracked) = self.by_token.remove(&own) {
            self.by_token.insert(token, tracked);
        }
        true
    }

    pub fn get(&self, token: u64) -> Option<&Tracked> {
        self.by_token.get(&token)
    }

    pub fn get_mut(&mut self, token: u64) -> Option<&mut Tracked> {
        self.by_token.get_mut(&token)
    }

    pub fn take(&mut self, token: u64) -> Option<Tracked> {
        self.by_token.remove(&token)
    }

    pub fn shadow_of(&self, name: &str) -> Option<&PathBuf> {
        self.by_token.values().find_map(|one| match &one.way {
            LiesAt::Shadow { copy, .. } if one.name == name => Some(copy),
            _ => None,
        })
    }

    /// Gives out a token for another descriptor on the private copy of `name`, and its path.
    pub fn share_shadow(&mut self, name: &str) -> Option<(PathBuf, u64)> {
        let path = self.shadow_of(name)?.clone();
        let twin = self.get(*self.shadows_of(name).first()?)?.clone();
        // What is reserved stays with the descriptor that asked for it.
        Some((path, self.issue(Tracked { room: Room::default(), ..twin })))
    }

    pub fn shadow_names(&self) -> BTreeSet<String> {
        let shadows = self.all().filter(|(_, one)| matches!(one.way, LiesAt::Shadow { .. }));
        shadows.map(|(_, one)| one.name.clone()).collect()
    }

    pub fn shadows_of(&self, name: &str) -> Vec<u64> {
        let shadow = |one: &Tracked| one.name == name && matches!(one.way, LiesAt::Shadow { .. });
        self.all().filter(|(_, one)| shadow(one)).map(|(token, _)| token).collect()
    }

    /// Returns the names of the files of `key` that are open here on sealed copies, or on copies of
    /// those.
    pub fn readers_of(&self, key: &DatasetKey) -> BTreeSet<String> {
        let reader = |way: &LiesAt| matches!(way, LiesAt::Lazy { .. } | LiesAt::Shadow { .. });
        let readers = self.by_token.values().filter(|one| one.key == *key && reader(&one.way));
        readers.map(|one| one.name.clone()).collect()
    }

    /// Notes that the sealed copy of `name` in `key` is found under the name `path` from now on.
    pub fn keep(&mut self, key: &DatasetKey, name: &str, path: &Path) {
        let readers = self.by_token.values_mut();
        for one in readers.filter(|one| one.key == *key && one.name == name) {
            match &mut one.way {
                LiesAt::Lazy { kept, .. } => *kept = Some(path.to_path_buf()),
                LiesAt::Shadow { origin, .. } => *origin = path.to_path_buf(),
                _ => {}
            }
        }
    }

    /// Notes that the private copy at `from` lies at `to` now, with no room set aside.
    pub fn move_shadow(&mut self, from: &Path, to: &Path) {
        for one in self.by_token.values_mut() {
            if let LiesAt::Shadow { copy, .. } = &mut one.way
                && copy == from
            {
                *copy = to.to_path_buf();
                one.room = Room::default();
            }
        }
    }

    fn named<'a>(&'a mut self, name: &'a str) -> impl Iterator<Item = &'a mut Tracked> {
        self.by_token.values_mut().filter(move |one| one.name == name)
    }

    pub fn rename(&mut self, from: &str, to: &str, key: &DatasetKey) {
        self.named(from).for_each(|one| (one.name, one.key) = (to.to_string(), key.clone()));
    }

    /// Renames what has moved of datasets for which `is_open` holds.
    pub fn follow(&mut self, one: &Move, is_open: impl Fn(&DatasetKey) -> bool) {
        for tracked in self.by_token.values_mut().filter(|tracked| is_open(&tracked.key)) {
            if let Some(name) = one.new_name(&tracked.name) {
                tracked.name = name;
            }
        }
    }

    /// Renames a file that lies at `way` from now on, or will when it is closed.
    pub fn rename_as(&mut self, from: &str, to: &str, key: &DatasetKey, way: &LiesAt) {
        self.named(from).for_each(|one| one.way = way.clone());
        self.rename(from, to, key);
    }

    pub fn become_temporary(&mut self, from: &str, to: &str) {
        self.named(from).for_each(|one| (one.name, one.way) = (to.to_string(), LiesAt::Temporary));
    }

    /// Notes that the file is no longer called `name`, nor anything else: its descriptors do not
    /// count for the next file of that name. Private copies are another matter.
    pub fn orphan(&mut self, name: &str) {
        self.orphan_readers(name);
        let is_copy = |one: &Tracked| matches!(one.way, LiesAt::Shadow { .. });
        self.by_token.retain(|_, one| one.name != name || is_copy(one));
    }

    /// Takes the name from the descriptors that have only read so far: what they write is theirs
    /// alone.
    pub fn orphan_readers(&mut self, name: &str) {
        self.next += 1;
        let none = format!("/{}/{name}", self.next);
        let reader =
            |one: &&mut Tracked| matches!(one.way, LiesAt::Lazy { .. }) && one.name == name;
        self.by_token.values_mut().filter(reader).for_each(|one| one.name.clone_from(&none));
    }

    pub fn count(&self, name: &str) -> usize {
        self.by_token.values().filter(|one| one.name == name).count()
    }

    /// Finds a descriptor that is open on `name` and may change it at once; returns its token.
    pub fn writer(&self, name: &str) -> Option<u64> {
        let writes = |one: &Tracked| one.name == name && !one.way.only_reads();
        self.all().find(|(_, one)| writes(one)).map(|(token, _)| token)
    }

    pub fn doubt(&mut self, name: &str) -> bool {
        let mut open = false;
        for one in self.named(name) {
            (one.doubted, open) = (true, true);
        }
        open
    }

    pub fn twin(&mut self, other: &Tracked) -> Option<&mut Tracked> {
        self.by_token.values_mut().find(|one| one.name == other.name && one.way == other.way)
    }

    pub fn all(&self) -> impl Iterator<Item = (u64, &Tracked)> {
        self.by_token.iter().map(|(token, one)| (*token, one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> Tracked {
        let way = LiesAt::Lazy { stamp: None, kept: None };
        Tracked::new(&DatasetKey::new(0, "5", 0), "f", way)
    }

    #[test]
    fn what_was_given_up_while_its_copy_was_made_does_not_come_back() {
        let mut tokens = Tokens::default();
        let token = tokens.issue(reader());
        let own = tokens.issue(Tracked { way: LiesAt::Cached, ..reader() });
        tokens.take(token);
        assert!(!tokens.replace(token, own));
        assert!(tokens.get(token).is_none() && tokens.get(own).is_some());
    }

    #[test]
    fn readers_of_a_deleted_file_share_what_has_no_name() {
        let mut tokens = Tokens::default();
        let first = [tokens.issue(reader()), tokens.issue(reader())];
        tokens.orphan("f");
        let second = tokens.issue(reader());
        tokens.orphan_readers("f");
        let [a, b, c] = [first[0], first[1], second].map(|token| tokens.get(token).unwrap());
        assert!(a.is_orphan() && a.name == b.name && c.is_orphan() && c.name != a.name);
        assert_eq!(tokens.count("f"), 0);
    }
}
