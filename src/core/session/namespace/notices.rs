//! What ranks tell one another about names, so that those of a node see at once what another does,
//! the others from the next agreement on (DESIGN section 5). It changes what is seen, nothing else:
//! what becomes of the files is agreed on at the next sync point.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use crate::session::machine::DatasetKey;

/// A directory that got its final name, with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Counts those of the rank that renamed it.
    pub number: u64,
    /// What it was called.
    pub from: String,
    /// What it is called.
    pub to: String,
    /// The PFS has files of it.
    pub landed: bool,
}

impl Move {
    /// What a file is called that was called `name`, if it has moved.
    pub fn new_name(&self, name: &str) -> Option<String> {
        let rest = name.strip_prefix(&self.from).filter(|rest| rest.starts_with('/'))?;
        Some(format!("{}{rest}", self.to))
    }
}

/// A file that a rank is about to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The file.
    pub name: String,
    /// The PFS has its newest content then.
    pub on_prefix: bool,
    /// Before, what lies here gets the file's name, there. Whoever cannot go on without it does
    /// it, since the rank may be stopped.
    pub rename: Option<(PathBuf, PathBuf)>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A dataset has begun, its files lie in this directory of the node.
    Begun(DatasetKey, PathBuf),
    /// A file is deleted; what is left of it waits for its real deletion.
    Deleted(String),
    /// That deletion is real, or was another's.
    Settled(String),
    /// A file is there (again).
    Made(String),
    /// The PFS has the newest content of a file.
    OnPrefix(String),
    /// A directory is removed, and waits for the deletion of what is in it.
    DirGone(String),
    /// It is there again, or really gone.
    DirSettled(String),
    /// A directory has moved.
    Moved(Move),
    /// The rank is about to write a file: what that means follows.
    Claimed(Claim),
    /// Nothing more follows; nothing at all, if it has failed.
    Unclaimed(String),
}

impl Notice {
    /// As a message from `rank`.
    pub fn to_bytes(&self, rank: usize) -> Vec<u8> {
        let (kind, name) = match self {
            Notice::Begun(..) => (0, ""),
            Notice::Deleted(name) => (1, name.as_str()),
            Notice::Settled(name) => (2, name.as_str()),
            Notice::Made(name) => (3, name.as_str()),
            Notice::OnPrefix(name) => (4, name.as_str()),
            Notice::DirGone(name) => (5, name.as_str()),
            Notice::DirSettled(name) => (6, name.as_str()),
            Notice::Moved(one) => (7, one.from.as_str()),
            Notice::Claimed(claim) => (8, claim.name.as_str()),
            Notice::Unclaimed(name) => (9, name.as_str()),
        };
        let mut out = (rank as u64).to_be_bytes().to_vec();
        out.push(kind);
        match self {
            Notice::Begun(key, dir) => {
                out.extend((key.series as u64).to_be_bytes());
                out.extend(key.generation.to_be_bytes());
                out.extend((key.id.len() as u64).to_be_bytes());
                out.extend(key.id.bytes());
                out.extend(dir.as_os_str().as_encoded_bytes());
            }
            Notice::Moved(one) => {
                out.extend(one.number.to_be_bytes());
                out.push(u8::from(one.landed));
                out.extend((one.from.len() as u64).to_be_bytes());
                out.extend(one.from.bytes().chain(one.to.bytes()));
            }
            Notice::Claimed(claim) => {
                let empty = PathBuf::new();
                let (from, to) = match &claim.rename {
                    Some((from, to)) => (from, to),
                    None => (&empty, &empty),
                };
                out.push(u8::from(claim.on_prefix));
                for bytes in [claim.name.as_bytes(), from.as_os_str().as_bytes()] {
                    out.extend((bytes.len() as u64).to_be_bytes());
                    out.extend(bytes);
                }
                out.extend(to.as_os_str().as_bytes());
            }
            _ => out.extend(name.bytes()),
        }
        out
    }

    /// The inverse: rank and change. Total.
    pub fn from_bytes(bytes: &[u8]) -> Option<(usize, Notice)> {
        let (rank, rest) = word(bytes)?;
        let (kind, rest) = rest.split_first()?;
        let name = || String::from_utf8(rest.to_vec()).ok();
        let told = match kind {
            0 => {
                let (series, rest) = word(rest)?;
                let (generation, rest) = word(rest)?;
                let (length, rest) = word(rest)?;
                let (id, dir) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                let id = String::from_utf8(id.to_vec()).ok()?;
                let dir = PathBuf::from(String::from_utf8(dir.to_vec()).ok()?);
                let series = usize::try_from(series).ok()?;
                Notice::Begun(DatasetKey::new(series, id, generation), dir)
            }
            1 => Notice::Deleted(name()?),
            2 => Notice::Settled(name()?),
            3 => Notice::Made(name()?),
            4 => Notice::OnPrefix(name()?),
            5 => Notice::DirGone(name()?),
            6 => Notice::DirSettled(name()?),
            7 => {
                let (number, rest) = word(rest)?;
                let (landed, rest) = rest.split_first()?;
                let (length, rest) = word(rest)?;
                let (from, to) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
                let (from, to) = (text(from)?, text(to)?);
                Notice::Moved(Move { number, from, to, landed: *landed != 0 })
            }
            8 => {
                let (on_prefix, rest) = rest.split_first()?;
                let (name, rest) = counted(rest)?;
                let (from, to) = counted(rest)?;
                let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
                let rename = (!from.is_empty()).then(|| (path(from), path(to)));
                let name = String::from_utf8(name.to_vec()).ok()?;
                Notice::Claimed(Claim { name, on_prefix: *on_prefix != 0, rename })
            }
            9 => Notice::Unclaimed(name()?),
            _ => return None,
        };
        Some((usize::try_from(rank).ok()?, told))
    }
}

/// Names with the ranks that have told of them.
#[derive(Debug, Default)]
pub struct ByOthers(BTreeSet<(String, usize)>);

impl ByOthers {
    /// `rank` tells of `name`.
    pub fn insert(&mut self, name: &str, rank: usize) {
        self.0.insert((name.to_string(), rank));
    }

    /// `rank` takes that back.
    pub fn remove(&mut self, name: &str, rank: usize) {
        self.0.remove(&(name.to_string(), rank));
    }

    /// Only the words of ranks for which `keep` holds count from now on.
    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        self.0.retain(|(_, rank)| keep(*rank));
    }

    /// Nobody's word about `name` counts any more.
    pub fn forget(&mut self, name: &str) {
        while let Some(first) = self.first(name) {
            self.0.remove(&first);
        }
    }

    /// Whether any rank has told of `name`.
    pub fn has(&self, name: &str) -> bool {
        !self.0.is_empty() && self.first(name).is_some()
    }

    /// All names, some of them several times.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|(name, _)| name)
    }

    fn first(&self, name: &str) -> Option<(String, usize)> {
        let mut from = self.0.range((name.to_string(), 0)..);
        from.next().filter(|(first, _)| first == name).cloned()
    }
}

fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*word), rest))
}

/// Bytes after their number.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = word(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: &str) -> Move {
        Move { number: 3, from: format!("c/{id}.new"), to: format!("c/{id}"), landed: true }
    }

    #[test]
    fn what_lies_in_a_directory_moves_with_it() {
        let one = step("10");
        assert_eq!(one.new_name("c/10.new/a/b").as_deref(), Some("c/10/a/b"));
        for other in ["c/10.new", "c/10.newer/a", "c/10/a", "d/c/10.new/a"] {
            assert_eq!(one.new_name(other), None);
        }
    }

    #[test]
    fn messages_are_read_as_they_were_told_and_others_are_none() {
        let key = DatasetKey::new(1, "20", 3);
        let names = ["a/b", ""].map(str::to_string);
        let [name, empty] = names;
        let rename = Some(("/p/.b.scr-1".into(), "/p/b".into()));
        let claim = Claim { name: name.clone(), on_prefix: true, rename };
        for told in [
            Notice::Begun(key, "/tmp/x".into()),
            Notice::Deleted(name.clone()),
            Notice::Settled(empty),
            Notice::Made(name.clone()),
            Notice::OnPrefix(name.clone()),
            Notice::DirGone(name.clone()),
            Notice::DirSettled(name.clone()),
            Notice::Moved(step("10")),
            Notice::Claimed(Claim { on_prefix: false, rename: None, ..claim.clone() }),
            Notice::Claimed(claim),
            Notice::Unclaimed(name),
        ] {
            let bytes = told.to_bytes(7);
            assert_eq!(Notice::from_bytes(&bytes), Some((7, told)));
            for end in 0..9 {
                assert_eq!(Notice::from_bytes(&bytes[..end]), None);
            }
        }
        assert_eq!(Notice::from_bytes(&[99; 40]), None);
    }
}
