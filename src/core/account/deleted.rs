//! Events of datasets that have left the prefix.

use crate::events::Event;
use crate::transfer::Left;

pub(crate) const OUTSIDE_WINDOW: &str = "outside the window (SCR_PREFIX_SIZE)";

pub(crate) fn deletions(left: &Left, why: &str) -> impl Iterator<Item = Event> {
    left.iter().map(move |(id, key)| Event::new("DELETED").dataset(*id, key.title()).note(why))
}
