//! Trees: packed form, file form, text forms, against fixtures worked out by hand and against
//! damage.

use proptest::prelude::*;
use scr_core::error::Error;
use scr_core::kvtree::file::{HEADER_BYTES, from_file_bytes, to_file_bytes};
use scr_core::kvtree::{DEPTH_MAX, KvTree};

use crate::support::{any_tree, fixture, hex_fixture, tree_from_text};

#[test]
fn file_form_agrees_with_the_manual_byte_by_byte() {
    let mut tree = KvTree::new();
    tree.set_kv("TIMESTEP", 21);
    tree.set_kv("TIMESTEP", 20);
    let bytes = hex_fixture("timestep.hex");
    assert_eq!(to_file_bytes(&tree).unwrap(), bytes);
    assert_eq!(from_file_bytes(&bytes), Ok(tree));
}

#[test]
fn elements_in_any_order_are_read() {
    let tree = from_file_bytes(&hex_fixture("overview.hex")).unwrap();
    assert_eq!(tree, tree_from_text(&fixture("overview.txt")));
    assert_eq!(to_file_bytes(&tree).unwrap().len(), hex_fixture("overview.hex").len());
}

#[test]
fn a_file_without_checksum_is_read() {
    let tree = from_file_bytes(&hex_fixture("no_checksum.hex")).unwrap();
    assert_eq!(tree.get_value("A"), Some(""));
}

#[test]
fn text_forms_agree_with_the_manual() {
    let tree = tree_from_text(&fixture("overview.txt"));
    assert_eq!(tree.to_text(2), fixture("overview.txt"));
    assert_eq!(tree.to_branches(), fixture("overview_branches.txt"));
    let mut ranks = KvTree::new();
    for key in ["10", "2", "-1", "x\ny", "007"] {
        ranks.child_mut(key);
    }
    assert_eq!(ranks.to_text(4), "-1\n2\n007\n10\nx\\ny\n");
}

#[test]
fn files_are_replaced_and_absent_ones_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tree.scr");
    assert_eq!(KvTree::read_file(&path).unwrap(), None);
    let mut tree = KvTree::new();
    for value in 0..2 {
        tree.set_value("VALUE", value);
        tree.write_file(&path).unwrap();
        assert_eq!(KvTree::read_file(&path).unwrap().as_ref(), Some(&tree));
    }
    std::fs::write(&path, "not a tree, but long enough for a header").unwrap();
    match KvTree::read_file(&path) {
        Err(error @ Error::Corrupt { .. }) => assert!(error.to_string().contains("tree.scr")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_follows_a_tree_is_left_in_the_stream() {
    let mut bytes = hex_fixture("timestep.hex");
    let length = bytes.len() as u64;
    bytes.extend_from_slice(b"parity");
    let mut stream = bytes.as_slice();
    let (tree, used) = KvTree::read_prefix(&mut stream, "x.xor".as_ref()).unwrap();
    assert_eq!((tree.len(), used, stream), (1, length, &b"parity"[..]));
    assert!(from_file_bytes(&bytes).is_err());
}

/// Any single byte that is changed, and any cut, is noticed: as a file in every place, as packed
/// bytes (no checksum) at least without a panic.
#[test]
fn damage_is_an_error_and_never_a_panic() {
    for name in ["timestep.hex", "overview.hex"] {
        let good = hex_fixture(name);
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                assert!(from_file_bytes(&bad).is_err(), "{name} byte {at} ^ {flip:#x}");
                let _ = KvTree::decode(&bad[HEADER_BYTES..]);
            }
            assert!(from_file_bytes(&good[..at]).is_err(), "{name} cut to {at}");
            let mut stream = &good[..at];
            assert!(KvTree::read_prefix(&mut stream, "x".as_ref()).is_err());
        }
        assert!(from_file_bytes(&[good, vec![0]].concat()).is_err());
    }
}

#[test]
fn lying_counts_and_sizes_cost_no_memory() {
    // 2^32-1 elements in 4 bytes; a file of 2^62 bytes in 28.
    assert!(KvTree::decode(&[0xff; 4]).is_err());
    let mut huge = hex_fixture("timestep.hex");
    huge[8] = 0x40;
    let error = KvTree::read_prefix(&mut huge.as_slice(), "x".as_ref()).unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
}

/// `depth` levels, packed: each is a count of 1, the empty key; then an empty hash.
fn nested(depth: usize) -> Vec<u8> {
    let mut bytes = [0, 0, 0, 1, 0].repeat(depth);
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

#[test]
fn nesting_is_limited() {
    assert_eq!(KvTree::decode(&nested(DEPTH_MAX)).unwrap().depth(), DEPTH_MAX);
    let error = KvTree::decode(&nested(DEPTH_MAX + 1)).unwrap_err();
    assert_eq!(error.what, "nested too deep");
    assert!(KvTree::decode(&nested(1_000_000)).is_err());
    let mut deep = KvTree::new();
    deep.path_mut(&["x"; DEPTH_MAX + 1]);
    assert!(to_file_bytes(&deep).is_err());
}

#[test]
fn a_key_that_comes_twice_is_merged() {
    let packed = b"\0\0\0\x02A\0\0\0\0\x01x\0\0\0\0\0A\0\0\0\0\x01y\0\0\0\0\0";
    let tree = KvTree::decode(packed).unwrap();
    assert_eq!(tree.child("A").keys().collect::<Vec<_>>(), ["x", "y"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn packing_and_unpacking_are_inverse(tree in any_tree()) {
        let packed = tree.encode();
        prop_assert_eq!(packed.len(), tree.packed_len());
        prop_assert_eq!(KvTree::decode(&packed).unwrap(), tree.clone());
        let file = to_file_bytes(&tree).unwrap();
        prop_assert_eq!(from_file_bytes(&file).unwrap(), tree);
    }

    #[test]
    fn merging_is_a_union(left in any_tree(), right in any_tree()) {
        let (mut one, mut other) = (left.clone(), right.clone());
        one.merge(&right);
        other.merge(&left);
        prop_assert_eq!(&one, &other);
        one.merge(&left);
        prop_assert_eq!(one, other);
    }

    /// The bounded twin of the fuzz target `fuzz/fuzz_targets/kvtree.rs`.
    #[test]
    fn any_bytes_give_a_tree_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(tree) = KvTree::decode(&bytes) {
            prop_assert_eq!(KvTree::decode(&tree.encode()).unwrap(), tree);
        }
        let _ = from_file_bytes(&bytes);
    }

    /// Random bytes hardly ever get far; these are trees with a few bytes changed.
    #[test]
    fn nearly_right_bytes_give_a_tree_or_an_error(
        tree in any_tree(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = tree.encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(tree) = KvTree::decode(&bytes) {
            prop_assert_eq!(KvTree::decode(&tree.encode()).unwrap(), tree.clone());
            let _ = (tree.to_text(2), tree.to_branches());
        }
    }
}
