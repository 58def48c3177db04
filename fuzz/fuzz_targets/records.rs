//! Any tree gives a record or an error; a record that was read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scr_core::kvtree::KvTree;
use scr_core::records::{Filemap, FlushState, HaltFile, PrefixIndex, Record, Summary};

fn check<R: Record + PartialEq + std::fmt::Debug>(tree: &KvTree) {
    if let Ok(record) = R::from_tree(tree) {
        assert_eq!(R::from_tree(&record.to_tree()), Ok(record));
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tree) = KvTree::decode(bytes) {
        check::<Filemap>(&tree);
        check::<PrefixIndex>(&tree);
        check::<Summary>(&tree);
        check::<FlushState>(&tree);
        check::<HaltFile>(&tree);
    }
});
