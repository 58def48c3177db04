//! A program that touches its files while they are being sealed.

use std::cell::Cell;

use scr_core::cache::{self, Ctx};
use scr_core::error::Result;
use scr_core::records::RecordedState;

use super::cluster::{Cluster, IDENTITY, key, prepare_if, write_files};

fn says_prepared(ctx: &Ctx) -> bool {
    let record = ctx.filemap.get(&key(10));
    record.is_some_and(|record| record.state == RecordedState::Prepared)
}

/// Seals a dataset on four ranks; rank 2 touches it right after the section number `touched_after`
/// (0: before all).
fn seal_with_a_touch(touched_after: u32) {
    let outcome = Cluster::new().launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        write_files(ctx, 10);
        let toucher = ctx.world.rank() == 2;
        let sections = Cell::new(0);
        let if_untouched = |action: &mut dyn FnMut() -> Result<()>| {
            let now = sections.replace(sections.get() + 1);
            let touched = toucher && now >= touched_after;
            // At no time does a record say more than is true.
            assert_eq!(says_prepared(ctx), now > 0 && !touched);
            if touched {
                return Ok(false);
            }
            action()?;
            assert!(says_prepared(ctx), "the record was not written in the section");
            if toucher && now + 1 == touched_after {
                ctx.filemap.revoke(&key(10)).unwrap();
            }
            Ok(true)
        };
        let refused = prepare_if(ctx, (10, 1, 5), "PARTNER", &if_untouched).is_err();
        (refused, says_prepared(ctx))
    });
    assert!(outcome.results.iter().all(|result| *result == Some((true, false))));
}

#[test]
fn a_touch_before_the_record_leaves_no_record() {
    seal_with_a_touch(0);
}

#[test]
fn a_touch_after_the_record_revokes_it_before_the_vote() {
    seal_with_a_touch(1);
}
