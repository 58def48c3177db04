//! The transfer file of a node: what is on its way to the parallel file system (manual 1.1, section
//! 9.7).
//!
//! ```text
//! FILES / <source> / DESTINATION / <path>       (staged: it gets its name when all are there)
//!                  / SIZE / <bytes>
//!                  / WRITTEN / <bytes that are durable>
//! PERCENT / <share of the time>
//! BW / <bytes per second>
//! COMMAND / RUN, STOP (nothing is copied until RUN) or EXIT (the process that copies is to end)
//! STATE / RUNNING or STOPPED
//! FLAG / DONE
//! ```
//!
//! It has several writers, the ranks of the node: change it with [`crate::records::update`].

use std::collections::BTreeMap;

use crate::kvtree::KvTree;
use crate::records::record::Record;

/// One file on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Where it goes.
    pub destination: String,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes from its begin that are at the destination, durably; `None` before anything is there,
    /// which tells an empty file that is on its way from one that has arrived.
    pub written: Option<u64>,
}

impl Transfer {
    /// Tells whether nothing of it is missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.written == Some(self.size)
    }
}

/// What the process that copies is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TransferCommand {
    /// Copy.
    #[default]
    Run,
    /// Wait for another command; who copies once ends.
    Stop,
    /// End.
    Exit,
}

impl TransferCommand {
    const ALL: [(TransferCommand, &'static str); 3] = [
        (TransferCommand::Run, "RUN"),
        (TransferCommand::Stop, "STOP"),
        (TransferCommand::Exit, "EXIT"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("RUN", |(_, word)| word)
    }

    fn of(word: Option<&str>) -> TransferCommand {
        let found = Self::ALL.iter().find(|(_, name)| Some(*name) == word);
        found.map_or(TransferCommand::Run, |(one, _)| *one)
    }
}

/// What is on its way from a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TransferFile {
    /// By source.
    pub files: BTreeMap<String, Transfer>,
    /// Share of the time that may be worked, percent; 0: no limit.
    pub percent: f64,
    /// Bytes per second; 0: no limit.
    pub bandwidth: f64,
    /// What a process that copies is asked to do.
    pub command: TransferCommand,
}

impl TransferFile {
    /// File name in the control directory.
    pub const NAME: &'static str = "transfer.scrinfo";

    fn is_done(&self) -> bool {
        self.files.values().all(Transfer::is_complete)
    }
}

impl Record for TransferFile {
    const KIND: &'static str = "the transfer file";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        for (source, file) in &self.files {
            let entry = tree.set_kv("FILES", source);
            entry.set_value("DESTINATION", &file.destination);
            entry.set_value("SIZE", file.size);
            if let Some(written) = file.written {
                entry.set_value("WRITTEN", written);
            }
        }
        tree.set_value("PERCENT", format_args!("{:.6}", self.percent));
        tree.set_value("BW", format_args!("{:.6}", self.bandwidth));
        tree.set_value("COMMAND", self.command.word());
        let runs = !self.is_done() && self.command == TransferCommand::Run;
        tree.set_value("STATE", if runs { "RUNNING" } else { "STOPPED" });
        if self.is_done() {
            tree.set_value("FLAG", "DONE");
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let mut file = TransferFile::default();
        for (source, entry) in tree.child("FILES").iter() {
            let wrong = || format!("{source} has no DESTINATION or SIZE");
            let transfer = Transfer {
                destination: entry.get_value("DESTINATION").ok_or_else(wrong)?.to_owned(),
                size: entry.get_u64("SIZE").ok_or_else(wrong)?,
                written: entry.get_u64("WRITTEN"),
            };
            file.files.insert(source.to_owned(), transfer);
        }
        let number = |key: &str| tree.get_value(key).and_then(|text| text.parse().ok());
        file.percent = number("PERCENT").unwrap_or(0.0);
        file.command = TransferCommand::of(tree.get_value("COMMAND"));
        file.bandwidth = number("BW").unwrap_or(0.0);
        Ok(file)
    }
}
