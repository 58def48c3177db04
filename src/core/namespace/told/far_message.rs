//! What a rank tells those of other nodes of names, and what it has told them.

use std::collections::{BTreeMap, BTreeSet};

use super::notices::Move;
use crate::kvtree::KvTree;
use crate::machine::{Accesses, DatasetKey};
use crate::records::{FileMeta, text};

pub type FarFiles = BTreeMap<String, FileMeta>;

#[derive(Debug, Default)]
pub struct ToldElsewhere {
    /// Of each dataset that is not sealed.
    pub files: BTreeMap<DatasetKey, FarFiles>,
    pub deleted: BTreeSet<String>,
    /// Deletions by other ranks that this one carries out, and is to tell.
    pub passed_on: BTreeSet<String>,
}

impl ToldElsewhere {
    /// Gives what was told of a directory's files their new names: the others know of the rename.
    pub fn follow(&mut self, one: &Move) {
        for files in self.files.values_mut() {
            for (name, mut meta) in std::mem::take(files) {
                let name = one.new_name(&name).unwrap_or(name);
                meta.name.clone_from(&name);
                files.insert(name, meta);
            }
        }
    }
}

/// What a rank tells, as a tree:
/// ```text
/// DSET / <directory name of the key> / THERE / <name> / <fields of FileMeta>
///                                      GONE / <name>
/// LAID / <name>  ON_PREFIX / <name>  DELETED / <name>  SETTLED / <name>
/// MOVED / <number> / FROM, TO, LANDED      LEARNED / <series> / <template>
/// JOINED / <name>
/// PARTED / <directory name of the key> / <name> / MODE, BYTES (`Accesses`, in hexadecimal)
/// ```
/// The last four are for the ranks of its own node, too.
///
/// Not of directories that are removed: whoever makes one again finds it there, before he has heard
/// of it, and must not lose it afterwards.
pub struct FarMessage(pub KvTree);

impl FarMessage {
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.0.is_empty() { Vec::new() } else { self.0.encode() }
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<FarMessage> {
        match bytes.is_empty() {
            true => Some(FarMessage(KvTree::new())),
            false => KvTree::decode(bytes).ok().map(FarMessage),
        }
    }

    /// Adds names of a kind, such as `DELETED`.
    pub fn names(&mut self, kind: &str, names: impl IntoIterator<Item = impl AsRef<str>>) {
        for name in names {
            self.0.child_mut(kind).set(name.as_ref(), KvTree::new());
        }
    }

    /// Tells of a deletion, and what the PFS has under the name, if that is known.
    pub fn deleted(&mut self, name: &str, old: Option<&FileMeta>) {
        let tree = self.0.child_mut("DELETED").child_mut(name);
        old.into_iter().for_each(|old| old.put_look(tree));
    }

    /// Gives the deletions of which [`FarMessage::deleted`] was told more than the name.
    pub fn old(&self) -> impl Iterator<Item = (&str, FileMeta)> {
        let all = self.0.child("DELETED").iter();
        all.filter_map(|(name, tree)| Some((name, FileMeta::look_in(tree)?)))
    }

    pub fn moved(&mut self, one: &Move) {
        let tree = self.0.child_mut("MOVED").child_mut(one.number);
        tree.set_value("FROM", &one.from);
        tree.set_value("TO", &one.to);
        tree.set_flag("LANDED", one.landed);
    }

    pub fn learned(&mut self, series: usize, template: &str) {
        self.0.child_mut("LEARNED").child_mut(series).child_mut(template);
    }

    /// Adds what the rank has written to a file of several nodes, and the rights of its node's
    /// file.
    pub fn parted(&mut self, key: &str, name: &str, mode: u32, done: &Accesses) {
        let tree = self.0.child_mut("PARTED").child_mut(key).child_mut(name);
        tree.set_value("MODE", format_args!("{mode:o}"));
        tree.set_value("BYTES", text::hex_text(&done.to_bytes()));
    }

    /// Gives what [`FarMessage::parted`] was told: key, name, rights and writes.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &str, u32, Accesses)> {
        let of = |tree: &KvTree| {
            let mode = u32::from_str_radix(tree.get_value("MODE")?, 8).ok()?;
            let bytes = text::parse_hex(tree.get_value("BYTES")?)?;
            Some((mode, Accesses::from_bytes(&bytes)?))
        };
        let files = self.0.child("PARTED").iter();
        let files =
            files.flat_map(|(key, names)| names.iter().map(move |(name, it)| (key, name, it)));
        files.filter_map(move |(key, name, tree)| {
            let (mode, done) = of(tree)?;
            Some((key, name, mode, done))
        })
    }

    pub fn tells_moves(&self) -> bool {
        self.0.contains("MOVED") || self.0.contains("LEARNED")
    }

    pub fn moves(&self) -> Vec<Move> {
        let of = |(number, tree): (&str, &KvTree)| {
            Some(Move {
                number: number.parse().ok()?,
                from: tree.get_value("FROM")?.to_string(),
                to: tree.get_value("TO")?.to_string(),
                landed: tree.get_flag("LANDED"),
            })
        };
        let mut moves: Vec<Move> = self.0.child("MOVED").iter().filter_map(of).collect();
        moves.sort_by_key(|one| one.number);
        moves
    }

    pub fn named<'a>(&'a self, kind: &str) -> impl Iterator<Item = String> + use<'a> {
        self.0.child(kind).keys().map(str::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_told_and_damaged_ones_are_none() {
        let mut news = FarMessage(KvTree::new());
        assert!(news.to_bytes().is_empty());
        assert!(FarMessage::from_bytes(&[]).is_some_and(|news| news.0.is_empty()));
        news.names("DELETED", ["a/b", "c"]);
        let step = |number, landed| Move {
            number,
            from: format!("{number}.new"),
            to: number.to_string(),
            landed,
        };
        let moves = [step(9, true), step(10, false)];
        moves.iter().rev().for_each(|one| news.moved(one));
        let bytes = news.to_bytes();
        let read = FarMessage::from_bytes(&bytes).unwrap();
        assert_eq!(read.named("DELETED").collect::<Vec<_>>(), ["a/b", "c"]);
        assert_eq!(read.moves(), moves);
        assert!(FarMessage::from_bytes(&bytes[..bytes.len() - 1]).is_none());
        assert!(FarMessage::from_bytes(b"?").is_none());
    }
}
