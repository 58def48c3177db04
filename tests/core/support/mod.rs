//! What several topics need: fixtures, trees from text, random trees.

pub mod large;
#[allow(dead_code, reason = "tests of the session begin lives")]
pub mod mortal;
#[allow(dead_code, reason = "tests of the session cut the power")]
pub mod power;
pub mod scale;
pub mod syncs;
pub mod theirs;

use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use scr_core::kvtree::KvTree;

/// The text of a file in `tests/core/fixtures`.
pub fn fixture(name: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/core/fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The bytes of a fixture of hex digits with `#` comments.
pub fn hex_fixture(name: &str) -> Vec<u8> {
    let text = fixture(name);
    let code = text.lines().map(|line| line.split('#').next().unwrap());
    code.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The tree that the manual would print as `text`: one key a line, two spaces a level.
pub fn tree_from_text(text: &str) -> KvTree {
    let mut tree = KvTree::new();
    let mut path: Vec<&str> = Vec::new();
    for line in text.lines() {
        let key = line.trim_start();
        path.truncate((line.len() - key.len()) / 2);
        path.push(key);
        tree.path_mut(&path);
    }
    tree
}

/// Any tree of up to about 60 keys, names with odd characters among them.
pub fn any_tree() -> impl Strategy<Value = KvTree> {
    let leaf = Just(KvTree::new());
    leaf.prop_recursive(6, 60, 5, |inner| {
        vec(("[A-Z0-9a-z/.\u{e9} \n]{0,6}", inner), 0..5).prop_map(|elements| {
            let mut tree = KvTree::new();
            for (key, subtree) in elements {
                tree.child_mut(key).merge(&subtree);
            }
            tree
        })
    })
}
