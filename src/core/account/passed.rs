//! What went straight to the prefix, and why, of all ranks: gathered once, at the end.

use std::collections::BTreeMap;
use std::path::Path;

use super::unmatched::SILENCE;
use crate::kvtree::KvTree;
use crate::machine::Reason;
use crate::records::RunPassed;

pub(crate) type Passed = BTreeMap<String, RunPassed>;

/// So many checkpoints may go to the PFS while it is seen how the program writes them.
const WATCHED_MAX: u64 = 4;

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

/// Says that no checkpoint was cached although files matched, or none of the last ones, unless too
/// few were written. So many were complete, and of the last ones so many `in_a_row` on the PFS.
pub(crate) fn uncached(
    passed: &Passed,
    sealed: u64,
    in_a_row: u64,
    prefix: &Path,
) -> Option<String> {
    let is_untold =
        |text: &String| Reason::ALL.iter().any(|one| one.is_untold() && one.text() == text);
    let is_early = passed.is_empty() || (sealed > 0 && in_a_row <= WATCHED_MAX);
    if is_early || !passed.keys().all(is_untold) {
        return None;
    }
    let reasons = passed.iter().map(|(text, one)| format!(" {text} (such as {});", one.example));
    let reasons: String = reasons.collect();
    let prefix = prefix.display();
    let what = match sealed {
        0 => "no checkpoint was protected: files match a pattern, but no checkpoint of them was \
              complete;"
            .to_owned(),
        all if all == in_a_row => {
            format!("no checkpoint was protected: all {all} checkpoints went straight to {prefix};")
        }
        all => format!(
            "the newest checkpoints were not protected: the last {in_a_row} of {all} went straight \
             to {prefix};"
        ),
    };
    Some(format!("{what}{reasons} scr report has more. {SILENCE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Why;

    #[test]
    fn a_run_that_has_cached_nothing_is_told_why() {
        let one = RunPassed { files: 9, bytes: 1, example: "ckpt/a".into() };
        let of = |reason: Reason| Passed::from([(reason.text().to_owned(), one.clone())]);
        let (watched, learned) = (of(Reason::Watched), of(Reason::Learned(Why::Readers)));
        let rows = [
            (&watched, (9, 9), Some("all 9 checkpoints went straight to /p; SCR watches")),
            (&watched, (4, 4), None),
            (&watched, (0, 0), Some("no checkpoint of them was complete; SCR watches")),
            (&learned, (9, 8), Some("the last 8 of 9 went straight to /p; ranks of other nodes")),
            (&learned, (9, 4), None),
            (&of(Reason::WaitsForFlush), (9, 8), None),
            (&Passed::new(), (0, 0), None),
        ];
        for (passed, seals, expected) in rows {
            let text = uncached(passed, seals.0, seals.1, Path::new("/p"));
            let fits = match (&text, expected) {
                (Some(text), Some(part)) => text.contains(part),
                (text, expected) => text.is_none() && expected.is_none(),
            };
            assert!(fits, "{text:?} {expected:?}");
        }
    }

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
