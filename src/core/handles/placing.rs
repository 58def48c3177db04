//! Where a file that is opened goes, by what this rank knows of it.

use crate::handles::{Room, State};
use crate::machine::{FileRef, Intent, Placed, Reason};
use crate::namespace::{FoundTarget, Place};

impl State {
    /// Notes that the program is about to change a file. If it makes one anew of which others have
    /// written one in the dataset that it would go to, and that is sealed, the next one begins.
    pub fn keep_up(&mut self, file: &FileRef, wish: Intent) {
        if file.id.is_some() || !wish.rewrites() {
            return;
        }
        let (key, name) = (self.machine.target(file), &file.name);
        let catalog = self.view.layer(&key).and_then(|layer| layer.catalog());
        let has = catalog.is_some_and(|all| !all.named(name).is_empty());
        if has && !self.own.has(&key, name) {
            self.machine.is_behind(&key, file);
        }
    }

    /// Settles whether a file lies in the cache after all; returns what is reserved for it there.
    pub fn settle_place(
        &mut self,
        placed: &mut Placed,
        name: &str,
        found: &FoundTarget,
        room: std::result::Result<Room, Reason>,
    ) -> Room {
        // What another descriptor holds until it goes to the PFS is one file for all; so is what
        // one has open in the cache: it moves with all of them if it finds no room.
        let held = matches!(found.place, Place::Private(_));
        let opened = matches!(&found.place, Place::Cached(of, _) if *of == placed.key)
            && self.own.tokens.writer(name).is_some();
        let taken = !self.own.has(&placed.key, name) && self.view.is_taken(&placed.key, name);
        let outside = self.is_outside(&placed.key, name);
        let kept = match room.as_ref().err() {
            _ if outside => Some(Reason::Follows),
            _ if held => Some(Reason::Follows),
            _ if taken => Some(Reason::Shared),
            reason => reason.filter(|_| !opened).copied(),
        };
        if let Some(reason) = kept.filter(|_| !placed.is_on_prefix()) {
            self.machine.moved_to_prefix(&placed.key, name, reason);
            placed.on_prefix = Some(reason);
        }
        room.unwrap_or_default()
    }

    /// Lets the machine learn who reads what.
    pub fn note_read(&mut self, file: &FileRef, place: &Place) {
        let foreign = match place {
            Place::Elsewhere(..) => true,
            Place::Prefix => {
                let mut own = self.own.holdings.values();
                let own = own.any(|holding| holding.files.contains(&file.name));
                self.machine.routing(file.series).watches() && !own
            }
            _ => false,
        };
        if foreign {
            self.machine.read_elsewhere(file);
        }
    }
}
