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

/// Reasons of which nothing else tells: for the others a file was judged, or there is a message.
const UNSEEN: [Reason; 8] = [
    Reason::Watched,
    Reason::Shared,
    Reason::Follows,
    Reason::Linked,
    Reason::DirectoryMoved,
    Reason::RenamedOut,
    Reason::Temporary,
    Reason::Special,
];

/// Says that no checkpoint was cached although files matched, unless too few were written or it is
/// known why. `sealed`: how many were complete on the PFS.
pub(crate) fn uncached(passed: &Passed, sealed: u64, prefix: &Path) -> Option<String> {
    let is_unseen = |text: &String| UNSEEN.iter().any(|reason| reason.text() == text);
    let is_early = passed.is_empty() || (1..=WATCHED_MAX).contains(&sealed);
    if is_early || !passed.keys().all(is_unseen) {
        return None;
    }
    let reasons = passed.iter().map(|(text, one)| format!(" {text} (such as {});", one.example));
    let reasons: String = reasons.collect();
    let what = match sealed {
        0 => "files match a pattern, but no checkpoint of them was complete;".to_owned(),
        count => format!("all {count} checkpoints went straight to {};", prefix.display()),
    };
    Some(format!("no checkpoint was protected: {what}{reasons} scr report has more. {SILENCE}"))
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
            (&watched, 9, Some("all 9 checkpoints went straight to /p; SCR watches")),
            (&watched, 4, None),
            (&watched, 0, Some("no checkpoint of them was complete; SCR watches")),
            (&learned, 9, None),
            (&Passed::new(), 0, None),
        ];
        for (passed, sealed, expected) in rows {
            let text = uncached(passed, sealed, Path::new("/p"));
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
