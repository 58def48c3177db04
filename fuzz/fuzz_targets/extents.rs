//! Any text gives pieces of a file or nothing; pieces that were read have that text alone, and can
//! be cut anywhere. Any bytes give a log, which survives its own bytes, or nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scr_core::parts::{Extents, NodeLog};

fuzz_target!(|input: (&str, u64, u64)| {
    let (text, at, count) = input;
    if let Some(log) = NodeLog::from_bytes(text.as_bytes()) {
        assert_eq!(NodeLog::from_bytes(&log.to_bytes()), Some(log));
    }
    if let Some(all) = Extents::from_text(text) {
        assert_eq!(all.to_text(), text);
        let cut: u64 = all.pieces(at, count).map(|piece| piece.len()).sum();
        assert_eq!(cut, all.bytes().saturating_sub(at).min(count));
    }
});
