//! Any bytes give a tree or an error; a tree gives the same bytes' meaning back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scr_core::kvtree::KvTree;
use scr_core::kvtree::file::{from_file_bytes, to_file_bytes};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tree) = KvTree::decode(bytes) {
        assert_eq!(KvTree::decode(&tree.encode()).as_ref(), Ok(&tree));
        let file = to_file_bytes(&tree).expect("what was decoded is not too deep");
        assert_eq!(from_file_bytes(&file), Ok(tree));
    }
    let _ = from_file_bytes(bytes);
});
