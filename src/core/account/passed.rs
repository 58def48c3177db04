//! What went straight to the prefix, and why, of all ranks: gathered once, at the end.

use std::collections::BTreeMap;

use crate::kvtree::KvTree;
use crate::records::RunPassed;

pub(crate) type Passed = BTreeMap<String, RunPassed>;

pub(crate) fn encode(passed: &Passed) -> Vec<u8> {
    let mut tree = KvTree::new();
    for (reason, one) in passed {
        let below = tree.child_mut(reason);
        below.set_value("FILES", one.files);
        below.set_value("BYTES", one.bytes);
        below.set_value("EXAMPLE", &one.example);
    }
    tree.encode()
}

/// Adds up what ranks have packed; the first example stays.
pub(crate) fn merge(all: &[Vec<u8>]) -> Passed {
    let mut sums = Passed::new();
    for tree in all.iter().filter_map(|bytes| KvTree::decode(bytes).ok()) {
        for (reason, one) in &tree {
            let sum = sums.entry(reason.to_owned()).or_default();
            sum.files = sum.files.saturating_add(one.get_u64("FILES").unwrap_or(0));
            sum.bytes = sum.bytes.saturating_add(one.get_u64("BYTES").unwrap_or(0));
            if sum.example.is_empty() {
                sum.example = one.get_value("EXAMPLE").unwrap_or_default().to_owned();
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_added_up() {
        let one = |files, bytes, example: &str| RunPassed { files, bytes, example: example.into() };
        let first: Passed = [("full".into(), one(1, 10, ""))].into();
        let second: Passed =
            [("full".into(), one(2, u64::MAX, "a")), ("log".into(), one(1, 1, "b"))].into();
        let all = merge(&[encode(&first), b"damaged".to_vec(), encode(&second), encode(&first)]);
        assert_eq!(all["full"], one(4, u64::MAX, "a"));
        assert_eq!(all["log"], one(1, 1, "b"));
    }
}
