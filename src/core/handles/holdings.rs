//! What this rank itself knows about each dataset: its own files, and the descriptors at work on
//! them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

pub use scr_abi::{TOKEN_LAZY, TOKEN_LOGGED};

use super::base::{Base, Stamp};
use crate::machine::DatasetKey;

/// One dataset, as far as this rank has a part in it.
#[derive(Debug, Clone, Default)]
pub struct Holding {
    /// Store that this rank's files lie in.
    pub store: String,
    /// This rank's files; the machine knows whether they lie in the cache
    /// ([`Machine::lies_on_prefix`](crate::machine::Machine::lies_on_prefix)).
    pub files: BTreeSet<String>,
    /// Bytes of its redundancy files on this rank.
    pub redundancy_bytes: u64,
    /// Dataset id; 0 until sealed.
    pub id: u64,
    /// Epoch of its seal.
    pub epoch: u64,
    /// The PFS has it all.
    pub flushed: bool,
}

/// How a tracked descriptor's file lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiesAt {
    /// In the dataset's directory.
    Cached,
    /// On the PFS under its own name.
    OnPrefix,
    /// Under a temporary name, in no dataset yet.
    Temporary,
    /// On the sealed copy itself: nothing has been written through it.
    Lazy {
        /// Size and times of the file when it was opened.
        stamp: Option<Stamp>,
        /// Another name of the file, since its dataset has left the cache.
        kept: Option<PathBuf>,
    },
    /// A private copy; only if it differs from `origin` at the close it becomes the file.
    Shadow {
        /// The copy.
        copy: PathBuf,
        /// What it was made from.
        origin: PathBuf,
        /// That file, while `origin` was the one that the name leads to.
        base: Option<Base>,
    },
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
    /// Where the bytes go.
    pub way: LiesAt,
    /// This open made the file.
    pub made: bool,
    /// What the store keeps free for it.
    pub room: Room,
    /// Making it durable has failed: it goes to the PFS at its close.
    pub distrusted: bool,
    /// Somebody else may write the file, too.
    pub doubted: bool,
    /// It was written from its start to its end.
    pub in_order: bool,
}

impl Tracked {
    /// Makes a descriptor on a file that was there, with no room set aside.
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

/// All descriptors at work, by token.
#[derive(Debug, Default)]
pub struct Tokens {
    next: u64,
    by_token: HashMap<u64, Tracked>,
}

impl Tokens {
    /// Gives out a token; never 0.
    pub fn issue(&mut self, tracked: Tracked) -> u64 {
        self.next += 1;
        self.by_token.insert(self.next, tracked);
        self.next
    }

    /// Gives out a token, with [`TOKEN_LAZY`] in it, for a descriptor that must not change its file
    /// yet.
    pub fn issue_lazy(&mut self, tracked: Tracked) -> u64 {
        self.next += 1;
        self.by_token.insert(self.next | TOKEN_LAZY, tracked);
        self.next | TOKEN_LAZY
    }

    /// Returns the tokens of the lazy descriptors for which `which` holds.
    pub fn lazy(&self, which: impl Fn(&Tracked) -> bool) -> Vec<u64> {
        let lazy = |one: &Tracked| matches!(one.way, LiesAt::Lazy { .. }) && which(one);
        self.all().filter(|(_, one)| lazy(one)).map(|(token, _)| token).collect()
    }

    /// Gives out a token, with [`TOKEN_LOGGED`] in it, for a descriptor whose reads and writes are
    /// logged.
    pub fn issue_logged(&mut self, tracked: Tracked) -> u64 {
        self.next += 1;
        self.by_token.insert(self.next | TOKEN_LOGGED, tracked);
        self.next | TOKEN_LOGGED
    }

    /// Makes `token` stand for what `own` stood for. Returns false if `token` stands for nothing
    /// any more: nobody would ever take it back.
    pub fn replace(&mut self, token: u64, own: u64) -> bool {
        if !self.by_token.contains_key(&token) {
            return false;
        }
        if let Some(tracked) = self.by_token.remove(&own) {
            self.by_token.insert(token, tracked);
        }
        true
    }

    /// Returns what `token` stands for.
    pub fn get(&self, token: u64) -> Option<&Tracked> {
        self.by_token.get(&token)
    }

    /// Returns what `token` stands for, to change it.
    pub fn get_mut(&mut self, token: u64) -> Option<&mut Tracked> {
        self.by_token.get_mut(&token)
    }

    /// Takes it back.
    pub fn take(&mut self, token: u64) -> Option<Tracked> {
        self.by_token.remove(&token)
    }

    /// Finds the shadow through which this rank sees `name` at the moment.
    pub fn shadow_of(&self, name: &str) -> Option<&PathBuf> {
        self.by_token.values().find_map(|one| match &one.way {
            LiesAt::Shadow { copy, .. } if one.name == name => Some(copy),
            _ => None,
        })
    }

    /// Gives out a token for another descriptor on the private copy of `name`. Returns where that
    /// lies, and the token.
    pub fn share_shadow(&mut self, name: &str) -> Option<(PathBuf, u64)> {
        let (path, twin) = self.by_token.values().find_map(|one| match &one.way {
            LiesAt::Shadow { copy, .. } if one.name == name => Some((copy.clone(), one.clone())),
            _ => None,
        })?;
        // What is reserved stays with the descriptor that asked for it.
        Some((path, self.issue(Tracked { room: Room::default(), ..twin })))
    }

    /// Returns the names of all files that have a shadow.
    pub fn shadow_names(&self) -> BTreeSet<String> {
        let shadows = self.all().filter(|(_, one)| matches!(one.way, LiesAt::Shadow { .. }));
        shadows.map(|(_, one)| one.name.clone()).collect()
    }

    /// Returns the tokens of all that share the shadow of `name`.
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

    /// Follows a rename of a file that is open.
    pub fn rename(&mut self, from: &str, to: &str, key: &DatasetKey) {
        for one in self.by_token.values_mut().filter(|one| one.name == from) {
            one.name = to.to_string();
            one.key = key.clone();
        }
    }

    /// Follows a rename of a file that is open and lies there from now on, or will when it is
    /// closed.
    pub fn rename_as(&mut self, from: &str, to: &str, key: &DatasetKey, way: &LiesAt) {
        for one in self.by_token.values_mut().filter(|one| one.name == from) {
            one.name = to.to_string();
            one.key = key.clone();
            one.way = way.clone();
        }
    }

    /// Notes that the file `from`, which is open, is now called `to` and belongs to no dataset.
    pub fn become_temporary(&mut self, from: &str, to: &str) {
        for one in self.by_token.values_mut().filter(|one| one.name == from) {
            one.name = to.to_string();
            one.way = LiesAt::Temporary;
        }
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

    /// Counts the descriptors that are open on `name`.
    pub fn count(&self, name: &str) -> usize {
        self.by_token.values().filter(|one| one.name == name).count()
    }

    /// Finds a descriptor that is open on `name` and may change it at once; returns its token.
    pub fn writer(&self, name: &str) -> Option<u64> {
        let writes = |one: &Tracked| one.name == name && !matches!(one.way, LiesAt::Lazy { .. });
        self.all().find(|(_, one)| writes(one)).map(|(token, _)| token)
    }

    /// Notes that somebody else may write `name`; returns whether it is open here.
    pub fn doubt(&mut self, name: &str) -> bool {
        let mut open = false;
        for one in self.by_token.values_mut().filter(|one| one.name == name) {
            (one.doubted, open) = (true, true);
        }
        open
    }

    /// Finds some descriptor that is open on the same file as `other`, in the same way.
    pub fn twin(&mut self, other: &Tracked) -> Option<&mut Tracked> {
        self.by_token.values_mut().find(|one| one.name == other.name && one.way == other.way)
    }

    /// Returns all descriptors that are open, with their tokens.
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
        let token = tokens.issue_lazy(reader());
        let own = tokens.issue(Tracked { way: LiesAt::Cached, ..reader() });
        tokens.take(token);
        assert!(!tokens.replace(token, own));
        assert!(tokens.get(token).is_none() && tokens.get(own).is_some());
    }

    #[test]
    fn readers_of_a_deleted_file_share_what_has_no_name() {
        let mut tokens = Tokens::default();
        let first = [tokens.issue_lazy(reader()), tokens.issue_lazy(reader())];
        tokens.orphan("f");
        let second = tokens.issue_lazy(reader());
        tokens.orphan_readers("f");
        let [a, b, c] = [first[0], first[1], second].map(|token| tokens.get(token).unwrap());
        assert!(a.is_orphan() && a.name == b.name && c.is_orphan() && c.name != a.name);
        assert_eq!(tokens.count("f"), 0);
    }
}
