//! Events of datasets that have left the prefix.

use crate::events::Event;
use crate::transfer::Left;

/// Why a dataset has left the prefix for a newer one.
pub(crate) const OUTSIDE_WINDOW: &str = "outside the window (SCR_PREFIX_SIZE)";

/// Makes an event for each dataset that has left the prefix.
pub(crate) fn deletions(left: &Left, why: &str) -> impl Iterator<Item = Event> {
    left.iter().map(move |(id, key)| Event::new("DELETED").dataset(*id, key.title()).note(why))
}
