//! A rank's part of the work of a large job, with a thousand ranks; the example `scale` measures it
//! with up to a million.

use crate::support::scale::PARTS;

#[test]
fn a_rank_of_a_thousand_can_do_its_part() {
    for part in &PARTS {
        assert!(!part.name.is_empty() && !part.by.is_empty());
        let dir = tempfile::tempdir().unwrap();
        (part.prepare)(1000, dir.path())();
    }
}
