//! The halt file: conditions under which a run is to end, and why it ended (000 section 9.5).

use crate::kvtree::KvTree;
use crate::records::record::Record;

/// Halt conditions. All are optional; a run goes on while none holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HaltFile {
    /// Checkpoints that are still to be completed; at 0 the run halts.
    pub checkpoints_left: Option<u64>,
    /// Halt once this time has passed, seconds since 1970.
    pub exit_after: Option<u64>,
    /// Halt `halt_seconds` before this time, seconds since 1970.
    pub exit_before: Option<u64>,
    /// How long before `exit_before`, in seconds.
    pub halt_seconds: Option<u64>,
    /// Why the run halted or is to halt; if set, it halts.
    pub exit_reason: Option<String>,
}

impl Record for HaltFile {
    const KIND: &'static str = "the halt file";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        let numbers = [
            ("CheckpointsLeft", self.checkpoints_left),
            ("ExitAfter", self.exit_after),
            ("ExitBefore", self.exit_before),
            ("HaltSeconds", self.halt_seconds),
        ];
        for (key, value) in numbers {
            if let Some(value) = value {
                tree.set_value(key, value);
            }
        }
        if let Some(reason) = &self.exit_reason {
            tree.set_value("ExitReason", reason);
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let number = |key: &str| match tree.get(key) {
            None => Ok(None),
            Some(_) => match tree.get_u64(key) {
                Some(value) => Ok(Some(value)),
                None => Err(format!("{key} is not one number")),
            },
        };
        Ok(HaltFile {
            checkpoints_left: number("CheckpointsLeft")?,
            exit_after: number("ExitAfter")?,
            exit_before: number("ExitBefore")?,
            halt_seconds: number("HaltSeconds")?,
            // Several reasons can have been merged; the first one will do.
            exit_reason: tree.child("ExitReason").keys().next().map(str::to_owned),
        })
    }
}
