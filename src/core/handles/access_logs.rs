//! Logs of what the program does to files that are watched.

use std::collections::BTreeMap;

use scr_abi::accesses::{AccessLog, trait_bit};

use crate::system::access_log;

/// The logs of descriptors that are open, by token, and those that wait for others.
#[derive(Debug, Default)]
pub struct AccessLogs {
    open: BTreeMap<u64, &'static AccessLog>,
    /// Those that its descriptors had before they were replaced.
    left: Vec<(u64, &'static AccessLog)>,
    spare: Vec<&'static AccessLog>,
}

impl AccessLogs {
    /// Returns an empty log for a descriptor that is about to be opened, if there is room for one.
    pub fn take(&mut self) -> Option<&'static AccessLog> {
        self.spare.pop().or_else(access_log)
    }

    /// Gives the log to a token.
    pub fn begin(&mut self, token: u64, log: &'static AccessLog) {
        self.open.insert(token, log);
    }

    /// Returns the log of a token.
    pub fn of(&self, token: u64) -> Option<&'static AccessLog> {
        self.open.get(&token).copied()
    }

    /// Says `bits` of all files that are open.
    pub fn mark(&self, bits: u64) {
        self.open.values().for_each(|log| log.mark(bits));
    }

    /// Takes back a log that no descriptor has any more.
    pub fn give_back(&mut self, log: &'static AccessLog) {
        log.clear();
        self.spare.push(log);
    }

    /// Takes back the log of a token that nobody else shares.
    pub fn drop_of(&mut self, token: u64) {
        self.leave(token);
        self.take_left(token);
    }

    /// Takes the log of a token that nobody else shares, of which descriptors still have it.
    pub fn leave(&mut self, token: u64) {
        self.left.extend(self.open.remove(&token).map(|log| (token, log)));
    }

    /// Gives `token` the log that `other` has.
    pub fn move_to(&mut self, token: u64, other: u64) {
        if let Some(log) = self.open.remove(&other) {
            self.open.insert(token, log);
        }
    }

    fn take_left(&mut self, token: u64) {
        let (back, left) = self.left.drain(..).partition::<Vec<_>, _>(|(of, _)| *of == token);
        self.left = left;
        back.into_iter().for_each(|(_, log)| self.give_back(log));
    }

    /// Takes the log of a token that is closed; `read` reads it before another one gets it.
    pub fn end<T>(&mut self, token: u64, read: impl FnOnce(&AccessLog) -> T) -> Option<T> {
        self.take_left(token);
        let log = self.open.remove(&token)?;
        if log.traits() & trait_bit::PARTED != 0 {
            return None; // it is that of the file, as long as that is written
        }
        let found = read(log);
        self.give_back(log);
        Some(found)
    }
}
