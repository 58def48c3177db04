//! What ranks tell one another about names: those of a node see at once what another does, the
//! others from the next agreement on (docs/internals/names.md). It changes only what is seen; what
//! becomes of the files is agreed on at the next sync point.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::outdated::Outdated;
use crate::bytes::{Reader, Writer};
use crate::machine::DatasetKey;

/// A directory that got its final name, with all that is in it; or a file of which each of several
/// nodes has a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Counts the moves of the rank that renamed it.
    pub number: u64,
    pub from: String,
    pub to: String,
    /// The PFS has files of it.
    pub landed: bool,
}

impl Move {
    pub fn new_name(&self, name: &str) -> Option<String> {
        let is_it = |rest: &&str| rest.is_empty() || rest.starts_with('/');
        let rest = name.strip_prefix(&self.from).filter(is_it)?;
        Some(format!("{}{rest}", self.to))
    }
}

/// A file that a rank is about to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteClaim {
    pub name: String,
    /// The dataset in whose directory of the cache it makes the file, which is not there.
    pub makes_in: Option<DatasetKey>,
    /// The PFS will have its newest content.
    pub on_prefix: bool,
    /// First, this file is removed, and the one at this path gets the other name. Whoever cannot go
    /// on without that does it, since the rank may be stopped, or has not come to it.
    pub removes: Option<Outdated>,
    pub rename: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A dataset has begun, with its directory on the node.
    Begun(DatasetKey, PathBuf),
    /// What is left of the file waits for its real deletion.
    Deleted(String),
    /// The deletion is real, or was another's.
    Settled(String),
    /// A file is there (again).
    Made(String),
    OnPrefix(String),
    /// A directory is removed, and waits for the deletion of what is in it.
    DirGone(String),
    /// The directory is there again, or really gone.
    DirSettled(String),
    Moved(Move),
    /// The rank is about to write a file: what that means follows.
    Claimed(WriteClaim),
    /// Nothing more follows; nothing at all, if the write has failed.
    Unclaimed(String),
    /// The rank changes what these names lead to, and what is below them: nobody looks there until
    /// the turn is over.
    Turn(Vec<String>),
    TurnOver,
    /// The newest content of a file is in the cache again, not on the PFS.
    Cached(String),
    /// The rank answers for a cached file that another one has made.
    Answers(String),
}

impl Notice {
    pub fn to_bytes(&self, rank: usize) -> Vec<u8> {
        let mut out = Writer::new();
        out.word(rank as u64);
        match self {
            Notice::Begun(key, dir) => put_key(out.byte(0), key).raw(dir.as_os_str().as_bytes()),
            Notice::Deleted(name) => out.byte(1).raw(name.as_bytes()),
            Notice::Settled(name) => out.byte(2).raw(name.as_bytes()),
            Notice::Made(name) => out.byte(3).raw(name.as_bytes()),
            Notice::OnPrefix(name) => out.byte(4).raw(name.as_bytes()),
            Notice::DirGone(name) => out.byte(5).raw(name.as_bytes()),
            Notice::DirSettled(name) => out.byte(6).raw(name.as_bytes()),
            Notice::Moved(one) => {
                out.byte(7).word(one.number).flags(&[one.landed]);
                out.counted(one.from.as_bytes()).raw(one.to.as_bytes())
            }
            Notice::Claimed(claim) => {
                let WriteClaim { makes_in, removes, .. } = claim;
                out.byte(8).flags(&[claim.on_prefix, makes_in.is_some(), removes.is_some()]);
                if let Some(key) = makes_in {
                    put_key(&mut out, key);
                }
                if let Some(removes) = removes {
                    removes.put(&mut out);
                }
                out.counted(claim.name.as_bytes());
                let (from, to) = claim.rename.clone().unwrap_or_default();
                out.counted(from.as_os_str().as_bytes()).raw(to.as_os_str().as_bytes())
            }
            Notice::Unclaimed(name) => out.byte(9).raw(name.as_bytes()),
            Notice::Turn(names) => out.byte(10).list(names, |out, name| {
                out.counted(name.as_bytes());
            }),
            Notice::TurnOver => out.byte(11),
            Notice::Cached(name) => out.byte(12).raw(name.as_bytes()),
            Notice::Answers(name) => out.byte(13).raw(name.as_bytes()),
        };
        out.take()
    }

    /// Takes any bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<(usize, Notice)> {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let mut from = Reader::new(bytes);
        let rank = from.size()?;
        let told = match from.byte()? {
            0 => {
                let key = take_key(&mut from)?;
                Notice::Begun(key, path(from.rest()))
            }
            1 => Notice::Deleted(from.rest_text()?),
            2 => Notice::Settled(from.rest_text()?),
            3 => Notice::Made(from.rest_text()?),
            4 => Notice::OnPrefix(from.rest_text()?),
            5 => Notice::DirGone(from.rest_text()?),
            6 => Notice::DirSettled(from.rest_text()?),
            7 => {
                let (number, [landed]) = (from.word()?, from.flags()?);
                let (old, new) = (from.text()?, from.rest_text()?);
                Notice::Moved(Move { number, from: old, to: new, landed })
            }
            8 => {
                let [on_prefix, makes, removes] = from.flags()?;
                let makes_in = if makes { Some(take_key(&mut from)?) } else { None };
                let removes = if removes { Some(Outdated::take(&mut from)?) } else { None };
                let name = from.text()?;
                let (old, new) = (from.counted()?, from.rest());
                let rename = (!old.is_empty()).then(|| (path(old), path(new)));
                Notice::Claimed(WriteClaim { name, makes_in, on_prefix, removes, rename })
            }
            9 => Notice::Unclaimed(from.rest_text()?),
            10 => Notice::Turn(from.list(|from| from.text())?),
            11 => Notice::TurnOver,
            12 => Notice::Cached(from.rest_text()?),
            13 => Notice::Answers(from.rest_text()?),
            _ => return None,
        };
        Some((rank, told))
    }
}

fn put_key<'a>(out: &'a mut Writer, key: &DatasetKey) -> &'a mut Writer {
    out.word(key.series as u64).word(key.generation).counted(key.id.as_bytes())
}

fn take_key(from: &mut Reader<'_>) -> Option<DatasetKey> {
    let (series, generation) = (from.size()?, from.word()?);
    Some(DatasetKey::new(series, from.text()?, generation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crc32;

    fn step(id: &str) -> Move {
        Move { number: 3, from: format!("c/{id}.new"), to: format!("c/{id}"), landed: true }
    }

    #[test]
    fn what_lies_in_a_directory_moves_with_it() {
        let one = step("10");
        assert_eq!(one.new_name("c/10.new/a/b").as_deref(), Some("c/10/a/b"));
        assert_eq!(one.new_name("c/10.new").as_deref(), Some("c/10"), "a file itself");
        for other in ["c/10.newer", "c/10.newer/a", "c/10/a", "d/c/10.new/a"] {
            assert_eq!(one.new_name(other), None);
        }
    }

    #[test]
    fn messages_are_read_as_they_were_told_and_others_are_none() {
        let key = DatasetKey::new(1, "20", 3);
        let names = ["a/b", ""].map(str::to_string);
        let [name, empty] = names;
        let rename = Some(("/p/.b.scr-1".into(), "/p/b".into()));
        let on_prefix = true;
        let claim = WriteClaim { name: name.clone(), on_prefix, rename, ..WriteClaim::default() };
        let making = WriteClaim { makes_in: Some(key.clone()), rename: None, ..claim.clone() };
        let removing = Outdated::new("/p/b".into(), [1, 2, 3, 4, 5]);
        let removing = WriteClaim { removes: Some(removing), ..WriteClaim::default() };
        let mut all = Vec::new();
        for told in [
            Notice::Begun(key, "/tmp/x".into()),
            Notice::Deleted(name.clone()),
            Notice::Settled(empty),
            Notice::Made(name.clone()),
            Notice::OnPrefix(name.clone()),
            Notice::DirGone(name.clone()),
            Notice::DirSettled(name.clone()),
            Notice::Moved(step("10")),
            Notice::Claimed(WriteClaim { on_prefix: false, rename: None, ..claim.clone() }),
            Notice::Claimed(claim),
            Notice::Claimed(making),
            Notice::Claimed(removing),
            Notice::Unclaimed(name.clone()),
            Notice::Turn(vec![name.clone(), "c".into()]),
            Notice::TurnOver,
            Notice::Cached(name.clone()),
            Notice::Answers(name),
        ] {
            let bytes = told.to_bytes(7);
            all.extend(&bytes);
            assert_eq!(Notice::from_bytes(&bytes), Some((7, told)));
            for end in 0..9 {
                assert_eq!(Notice::from_bytes(&bytes[..end]), None);
            }
        }
        assert_eq!(Notice::from_bytes(&[99; 40]), None);
        assert_eq!(crc32(&all), 0x120f_9fb6, "the form is as it was");
    }
}
