//! The map below [`KvTree`]: keys in byte order. A record of a large dataset has millions of trees,
//! most of them a value (one key with nothing below it), nearly all others of a few keys: that is
//! nothing that a B-tree is made for. Few trees have many keys, and those come in any order.

use std::collections::{BTreeMap, btree_map};
use std::slice;

use compact_str::CompactString;

use super::KvTree;
use super::tree::EMPTY;

/// Most keys of the simple form.
const FEW: usize = 12;

/// Up to 24 bytes of a key need no memory of their own.
pub(super) type Key = CompactString;

#[derive(Clone)]
pub(super) enum Elements {
    /// One, with nothing below it.
    Value(Key),
    /// In byte order of the keys.
    Few(Vec<(Key, KvTree)>),
    Many(BTreeMap<Key, KvTree>),
}

impl Elements {
    pub const fn new() -> Self {
        Elements::Few(Vec::new())
    }

    /// Makes an empty one with room for `count` keys, if they are few.
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

    pub fn get_mut(&mut self, key: &str) -> Option<&mut KvTree> {
        match self.unfolded() {
            Unfolded::Few(few) => find(few, key).ok().map(|at| &mut few[at].1),
            Unfolded::Many(many) => many.get_mut(key),
        }
    }

    /// Returns the subtree under `key`, which is made, empty, if it was not there.
    pub fn get_or_insert(&mut self, key: Key) -> &mut KvTree {
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

    pub fn iter(&self) -> Iter<'_> {
        match self {
            Elements::Value(value) => Iter::Value(Some(value)),
            Elements::Few(few) => Iter::Few(few.iter()),
            Elements::Many(many) => Iter::Many(many.iter()),
        }
    }
}

/// What can be changed of [`Elements`].
enum Unfolded<'a> {
    Few(&'a mut Vec<(Key, KvTree)>),
    Many(&'a mut BTreeMap<Key, KvTree>),
}

/// Where the key is, or where it would be.
fn find(few: &[(Key, KvTree)], key: &str) -> Result<usize, usize> {
    // Keys mostly come in order.
    match few.last() {
        Some((last, _)) if last.as_str() < key => Err(few.len()),
        _ => few.binary_search_by(|(one, _)| one.as_str().cmp(key)),
    }
}

/// In byte order of the keys.
pub(super) enum Iter<'a> {
    Value(Option<&'a Key>),
    Few(slice::Iter<'a, (Key, KvTree)>),
    Many(btree_map::Iter<'a, Key, KvTree>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a KvTree);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Iter::Value(value) => value.take().map(|value| (value.as_str(), &EMPTY)),
            Iter::Few(few) => few.next().map(|(key, subtree)| (key.as_str(), subtree)),
            Iter::Many(many) => many.next().map(|(key, subtree)| (key.as_str(), subtree)),
        }
    }
}
