//! Logs of what the program does to files that are watched.

use std::collections::BTreeMap;

use scr_abi::accesses::AccessLog;

use crate::system::access_log;

/// The logs of descriptors that are open, by token, and those that wait for others.
#[derive(Debug, Default)]
pub struct AccessLogs {
    open: BTreeMap<u64, &'static AccessLog>,
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

    /// Takes the log of a token that is closed; `read` reads it before another one gets it.
    pub fn end<T>(&mut self, token: u64, read: impl FnOnce(&AccessLog) -> T) -> Option<T> {
        let log = self.open.remove(&token)?;
        let found = read(log);
        log.clear();
        self.spare.push(log);
        Some(found)
    }
}
