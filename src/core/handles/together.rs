//! Files that ranks of several nodes open together: how long one is of which each node has its
//! part, and when nobody here can know that.

use std::sync::atomic::Ordering;

use scr_abi::TOKEN_LAZY;
use scr_abi::accesses::{Moment, trait_bit};

use crate::handles::{LiesAt, State, Tracked, group_number};
use crate::machine::{DatasetKey, FileRef};
use crate::namespace as ns;
use crate::parts::Extent;

impl State {
    /// Returns how long a file is that several nodes write, bytes; `None`: this rank cannot know.
    pub fn part_size(&self, key: &DatasetKey, name: &str) -> Option<u64> {
        let file = self.own.parted.get(key, name)?;
        if !self.own.parted.is_up_to_date(self.machine.points_entered()) {
            return None;
        }
        if file.is_cut() {
            return Some(file.size());
        }
        // Other ranks of the node may have made it longer just now.
        let here = self.view.layer(key).and_then(|layer| layer.dir.join(name).metadata().ok());
        Some(file.size().max(here.map_or(0, |found| found.len())))
    }

    /// Tells whether the node of this `rank` has these bytes of a file in progress, as far as all
    /// know, and no other has written them since. `None`: there is no such file.
    pub fn has_part(
        &self,
        key: &DatasetKey,
        name: &str,
        rank: usize,
        piece: Extent,
    ) -> Option<bool> {
        let file = self.own.parted.get(key, name)?;
        let known = self.own.parted.is_up_to_date(self.machine.points_entered());
        let reaches = |size: u64| piece.end <= size;
        let is_within = || reaches(file.size()) || self.part_size(key, name).is_some_and(reaches);
        let has = || file.has(self.machine.nodes()[rank], piece);
        Some(known && !file.leaves && is_within() && has())
    }

    /// Returns how long the whole file of a token is; of which file nobody here knows, as an error.
    pub fn size_of(&self, token: u64) -> Option<Result<u64, (DatasetKey, String)>> {
        Some(match self.own.tokens.get(token)? {
            Tracked { way: LiesAt::Part(here), key, name, .. } => {
                match self.is_older(token, name) {
                    true => Err((key.clone(), name.clone())),
                    false => Ok(here.whole),
                }
            }
            Tracked { key, name, .. } => {
                self.part_size(key, name).ok_or_else(|| (key.clone(), name.clone()))
            }
        })
    }

    /// Tells whether another rank has changed the sealed file of `token` since that was opened; or
    /// may have without its knowing, if this rank has it open for that, too.
    pub fn is_older(&self, token: u64, name: &str) -> bool {
        let knows = self.own.parted.is_up_to_date(self.machine.points_entered());
        token & TOKEN_LAZY != 0 && !knows || self.view.place(name) == ns::Place::Prefix
    }

    /// Returns when something is done now.
    pub fn moment(&self) -> Moment {
        let round = self.own.groups.round().load(Ordering::SeqCst);
        Moment { points: self.machine.points_entered(), round }
    }

    /// Notes that ranks have made a call on a file by which they may know more of one another than
    /// they have told.
    pub fn not_all_told(&mut self) {
        self.own.parted.not_all_told();
        self.own.logs.mark(trait_bit::UNCOUNTED);
    }

    /// Notes that the program is about to open a file by MPI-IO, these `ranks` of the world
    /// together. If they are to make it, if need be, `made` is its name.
    pub fn opens_together(&mut self, made: Option<&str>, file: Option<&FileRef>, ranks: &[usize]) {
        self.own.making = made.map(str::to_owned);
        let world = self.machine.nodes().len();
        // Who is not of this world may know nothing of us.
        let is_group = (2..world).contains(&ranks.len()) && ranks.iter().all(|rank| *rank < world);
        if let Some(file) = file.filter(|_| is_group) {
            self.own.groups.enter(group_number(ranks));
            self.own.groups.opening = Some(self.machine.counts_calls_on(file));
        }
    }

    /// Notes that MPI_File_open has returned. If only some of the ranks have called it, and on one
    /// of our files, tells whether this one wants their calls on the file to be counted.
    pub fn opened_together(&mut self) -> Option<bool> {
        self.own.making = None;
        self.own.groups.opening.take()
    }
}
