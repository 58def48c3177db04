//! The tree: keys in byte order, each with a subtree; a value is a key whose subtree is empty.

use std::collections::{BTreeMap, btree_map};
use std::fmt::{self, Display};
use std::slice;
use std::str::FromStr;

use compact_str::{CompactString, ToCompactString as _};

/// A tree of keys (manual 1.1, section 3: "hash").
///
/// Invariants:
/// * keys are unique under one parent and contain no NUL (the packed form ends keys with one);
/// * equal trees iterate equally and have equal packed bytes, whatever the order they were built
///   in.
#[derive(Clone)]
pub struct KvTree {
    pub(super) elements: Elements,
}

/// What [`KvTree::child`] gives for a key that is not there.
static EMPTY: KvTree = KvTree::new();

impl KvTree {
    /// Returns an empty tree.
    pub const fn new() -> Self {
        KvTree { elements: Elements::new() }
    }

    /// Counts the keys at the top level.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Tells whether there is no key at all: what a value looks like from below.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the subtree under `key`.
    pub fn get(&self, key: &str) -> Option<&KvTree> {
        self.elements.get(key)
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns the subtree under `key`, or an empty one (the documents' rule for a missing hash),
    /// so that look-ups can be chained.
    pub fn child(&self, key: &str) -> &KvTree {
        self.get(key).unwrap_or(&EMPTY)
    }

    /// Returns the subtree under `key`, which is made if need be.
    pub fn child_mut(&mut self, key: impl Display) -> &mut KvTree {
        self.elements.get_or_insert(key_text(key))
    }

    /// Puts `subtree` under `key` in place of what was there.
    pub fn set(&mut self, key: impl Display, subtree: KvTree) -> &mut KvTree {
        let slot = self.child_mut(key);
        *slot = subtree;
        slot
    }

    /// Adds `value` under `key` and returns its subtree. Other values stay (manual 1.1, section
    /// 3.2.3).
    pub fn set_kv(&mut self, key: impl Display, value: impl Display) -> &mut KvTree {
        self.child_mut(key).child_mut(value)
    }

    /// Makes `value` the only one under `key`.
    pub fn set_value(&mut self, key: impl Display, value: impl Display) {
        self.child_mut(key).elements = Elements::Value(key_text(value));
    }

    /// Returns the value under `key`; `None` if there is none or more than one.
    pub fn get_value(&self, key: &str) -> Option<&str> {
        let mut values = self.get(key)?.keys();
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// Returns the only value under `key`; `None` if absent, doubled or malformed.
    pub fn parse<T: FromStr>(&self, key: &str) -> Option<T> {
        self.get_value(key)?.parse().ok()
    }

    /// Returns the only value under `key` as an unsigned number.
    pub fn get_u64(&self, key: &str) -> Option<u64> {
        self.parse(key)
    }

    pub(crate) fn get_i64(&self, key: &str) -> Option<i64> {
        self.parse(key)
    }

    /// Tells whether the value under `key` is `1`, as the documents write a flag.
    pub fn get_flag(&self, key: &str) -> bool {
        self.get_value(key) == Some("1")
    }

    /// Writes the flag `key` as `1`, or removes it.
    pub fn set_flag(&mut self, key: &str, on: bool) {
        if on {
            self.set_value(key, 1);
        } else {
            self.remove(key);
        }
    }

    /// Returns the subtree at the end of a chain of keys (the documents' `getf`).
    pub fn get_path(&self, path: &[&str]) -> Option<&KvTree> {
        path.iter().try_fold(self, |tree, key| tree.get(key))
    }

    /// Does what [`KvTree::get_path`] does, made as far as it is missing (the documents' `setf`).
    pub fn path_mut(&mut self, path: &[&str]) -> &mut KvTree {
        path.iter().fold(self, |tree, key| tree.child_mut(key))
    }

    /// Returns what was under `key`.
    pub fn remove(&mut self, key: &str) -> Option<KvTree> {
        self.elements.remove(key)
    }

    /// Takes the keys of `other`; subtrees of common keys are merged, as unpacking and receiving do
    /// (manual 1.1, section 3.2.7).
    pub fn merge(&mut self, other: &KvTree) {
        for (key, subtree) in other {
            self.child_mut(key).merge(subtree);
        }
    }

    /// Iterates over keys and subtrees, in byte order of the keys.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.elements.iter())
    }

    /// Iterates over the keys, in byte order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the longest chain of keys below this tree: 0 for an empty one.
    pub fn depth(&self) -> usize {
        self.iter().map(|(_, subtree)| 1 + subtree.depth()).max().unwrap_or(0)
    }
}

impl Default for KvTree {
    fn default() -> Self {
        KvTree::new()
    }
}

impl PartialEq for KvTree {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl Eq for KvTree {}

impl fmt::Debug for KvTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// Cuts at the first NUL, as a C string would end: what follows could not be read back.
fn key_text(key: impl Display) -> KeyText {
    let mut text = key.to_compact_string();
    if let Some(nul) = text.find('\0') {
        text.truncate(nul);
    }
    text
}

pub struct Iter<'a>(Entries<'a>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a KvTree);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<'a> IntoIterator for &'a KvTree {
    type Item = (&'a str, &'a KvTree);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

const FEW: usize = 12;

/// Up to 24 bytes of a key need no memory of their own.
type KeyText = CompactString;

/// The map below a tree. A record of a large dataset has millions of trees, most of them a value
/// (one key with nothing below it), nearly all others of a few keys: that is nothing that a B-tree
/// is made for. Few trees have many keys, and those come in any order.
#[derive(Clone)]
pub(super) enum Elements {
    /// One, with nothing below it.
    Value(KeyText),
    Few(Vec<(KeyText, KvTree)>),
    Many(BTreeMap<KeyText, KvTree>),
}

impl Elements {
    pub const fn new() -> Self {
        Elements::Few(Vec::new())
    }

    /// Makes room for `count` keys, if they are few.
    pub fn with_room(count: usize) -> Self {
        Elements::Few(Vec::with_capacity(count.min(FEW)))
    }

    pub fn len(&self) -> usize {
        match self {
            Elements::Value(_) => 1,
            Elements::Few(few) => few.len(),
            Elements::Many(many) => many.len(),
        }
    }

    pub fn get(&self, key: &str) -> Option<&KvTree> {
        match self {
            Elements::Value(value) => (value == key).then_some(&EMPTY),
            Elements::Few(few) => find(few, key).ok().map(|at| &few[at].1),
            Elements::Many(many) => many.get(key),
        }
    }

    pub fn get_or_insert(&mut self, key: KeyText) -> &mut KvTree {
        if let Elements::Few(few) = self
            && few.len() == FEW
            && find(few, &key).is_err()
        {
            *self = Elements::Many(std::mem::take(few).into_iter().collect());
        }
        match self.unfolded() {
            Unfolded::Few(few) => {
                let at = find(few, &key).unwrap_or_else(|at| {
                    few.insert(at, (key, KvTree::new()));
                    at
                });
                &mut few[at].1
            }
            Unfolded::Many(many) => many.entry(key).or_default(),
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<KvTree> {
        match self.unfolded() {
            Unfolded::Few(few) => find(few, key).ok().map(|at| few.remove(at).1),
            Unfolded::Many(many) => many.remove(key),
        }
    }

    /// In a form whose subtrees can be changed.
    fn unfolded(&mut self) -> Unfolded<'_> {
        loop {
            match self {
                Elements::Value(value) => {
                    *self = Elements::Few(vec![(std::mem::take(value), KvTree::new())]);
                }
                Elements::Few(few) => return Unfolded::Few(few),
                Elements::Many(many) => return Unfolded::Many(many),
            }
        }
    }

    pub fn iter(&self) -> Entries<'_> {
        match self {
            Elements::Value(value) => Entries::Value(Some(value)),
            Elements::Few(few) => Entries::Few(few.iter()),
            Elements::Many(many) => Entries::Many(many.iter()),
        }
    }
}

enum Unfolded<'a> {
    Few(&'a mut Vec<(KeyText, KvTree)>),
    Many(&'a mut BTreeMap<KeyText, KvTree>),
}

fn find(few: &[(KeyText, KvTree)], key: &str) -> Result<usize, usize> {
    // Keys mostly come in order.
    match few.last() {
        Some((last, _)) if last.as_str() < key => Err(few.len()),
        _ => few.binary_search_by(|(one, _)| one.as_str().cmp(key)),
    }
}

pub(super) enum Entries<'a> {
    Value(Option<&'a KeyText>),
    Few(slice::Iter<'a, (KeyText, KvTree)>),
    Many(btree_map::Iter<'a, KeyText, KvTree>),
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, &'a KvTree);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Entries::Value(value) => value.take().map(|value| (value.as_str(), &EMPTY)),
            Entries::Few(few) => few.next().map(|(key, subtree)| (key.as_str(), subtree)),
            Entries::Many(many) => many.next().map(|(key, subtree)| (key.as_str(), subtree)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_value_is_kept_until_replaced() {
        let mut tree = KvTree::new();
        tree.set_kv("TIMESTEP", 20);
        tree.set_kv("TIMESTEP", 21);
        assert_eq!(tree.child("TIMESTEP").keys().collect::<Vec<_>>(), ["20", "21"]);
        assert_eq!(tree.get_value("TIMESTEP"), None);
        tree.set_value("TIMESTEP", 22);
        assert_eq!(tree.get_u64("TIMESTEP"), Some(22));
    }

    #[test]
    fn merge_keeps_both_sides() {
        let (mut left, mut right) = (KvTree::new(), KvTree::new());
        left.path_mut(&["RANK", "0", "A"]);
        right.path_mut(&["RANK", "0", "B"]);
        right.path_mut(&["RANK", "1"]);
        left.merge(&right);
        assert_eq!(left.child("RANK").child("0").len(), 2);
        assert_eq!(left.child("RANK").len(), 2);
    }

    #[test]
    fn set_overwrites_and_missing_counts_as_empty() {
        let mut tree = KvTree::new();
        tree.set_kv("KEY", "old");
        tree.set("KEY", KvTree::new());
        assert_eq!(tree.get("KEY"), Some(&KvTree::new()));
        assert_eq!(tree.child("NONE").child("NONE").len(), 0);
    }

    #[test]
    fn a_key_ends_at_a_nul() {
        let mut tree = KvTree::new();
        tree.child_mut("left\0right");
        assert!(tree.contains("left"));
    }
}
