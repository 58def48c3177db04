//! The halt file: conditions under which a run is to end, and why it ended (manual 1.1, section
//! 9.5).

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

/// Reason that the end of a run leaves; it stops relaunches of the same allocation only.
pub const FINALIZE_CALLED: &str = "SCR_FINALIZE_CALLED";
const NO_CHECKPOINTS_LEFT: &str = "SCR_NO_CHECKPOINTS_LEFT";
const EXIT_AFTER: &str = "SCR_EXIT_AFTER";
const EXIT_BEFORE: &str = "SCR_EXIT_BEFORE";

impl HaltFile {
    /// Name of the file in the prefix's `.scr` directory.
    pub const NAME: &'static str = "halt.scr";

    /// Returns the reason to halt at `now` (seconds since 1970), as it is recorded; `None`: the run
    /// goes on.
    #[must_use]
    pub fn due(&self, now: u64) -> Option<&str> {
        let limit = self.exit_before.map(|end| end.saturating_sub(self.halt_seconds.unwrap_or(0)));
        match self {
            HaltFile { exit_reason: Some(reason), .. } => Some(reason),
            HaltFile { checkpoints_left: Some(0), .. } => Some(NO_CHECKPOINTS_LEFT),
            HaltFile { exit_after: Some(time), .. } if now > *time => Some(EXIT_AFTER),
            _ if limit.is_some_and(|limit| now >= limit) => Some(EXIT_BEFORE),
            _ => None,
        }
    }

    /// Adds what the settings say and the file does not: halt `seconds` (0: no wish) before `end`,
    /// the end of the allocation (seconds since 1970).
    pub fn add_settings(&mut self, seconds: u64, end: Option<u64>) {
        self.halt_seconds = self.halt_seconds.or((seconds > 0).then_some(seconds));
        if self.halt_seconds.is_some() {
            // The end of the allocation alone is no wish to halt before it; a person's time is.
            self.exit_before = self.exit_before.or(end);
        }
    }

    /// Takes back what an earlier run has recorded itself; what a person asked for stays. `true`
    /// if there was something.
    pub fn forget_own_reason(&mut self) -> bool {
        let own = [FINALIZE_CALLED, NO_CHECKPOINTS_LEFT, EXIT_AFTER, EXIT_BEFORE];
        let is_own = self.exit_reason.as_deref().is_some_and(|reason| own.contains(&reason));
        if is_own {
            self.exit_reason = None;
        }
        is_own
    }

    /// Uses up a condition that was carried out, as far as it can come true but once. What a person
    /// has asked for meanwhile stays the reason.
    pub fn carried_out(&mut self, reason: &str) {
        if self.checkpoints_left == Some(0) {
            self.checkpoints_left = None;
        }
        self.forget_own_reason();
        self.exit_reason.get_or_insert_with(|| reason.to_owned());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_comes_true_at_its_time() {
        let before = HaltFile {
            exit_before: Some(1000),
            halt_seconds: Some(100),
            checkpoints_left: Some(1),
            exit_after: Some(2000),
            exit_reason: None,
        };
        assert_eq!(before.due(899), None);
        assert_eq!(before.due(900), Some(EXIT_BEFORE));
        let after = HaltFile { exit_before: None, ..before.clone() };
        assert_eq!((after.due(2000), after.due(2001)), (None, Some(EXIT_AFTER)));
        let none_left = HaltFile { checkpoints_left: Some(0), ..before.clone() };
        assert_eq!(none_left.due(0), Some(NO_CHECKPOINTS_LEFT));
        let asked = HaltFile { exit_reason: Some("maintenance".into()), ..before };
        assert_eq!(asked.due(0), Some("maintenance"));
    }

    #[test]
    fn a_time_in_the_file_needs_no_setting_but_the_allocations_end_does() {
        let with = |exit_before, seconds, end| {
            let mut file = HaltFile { exit_before, ..HaltFile::default() };
            file.add_settings(seconds, end);
            (file.exit_before, file.halt_seconds)
        };
        assert_eq!(with(Some(1000), 0, None), (Some(1000), None));
        assert_eq!(with(Some(1000), 0, Some(5000)), (Some(1000), None));
        assert_eq!(with(Some(1000), 60, Some(5000)), (Some(1000), Some(60)));
        assert_eq!(with(None, 0, Some(5000)), (None, None));
        assert_eq!(with(None, 60, Some(5000)), (Some(5000), Some(60)));
    }

    #[test]
    fn a_run_takes_back_its_own_reasons_only() {
        let mut file = HaltFile { checkpoints_left: Some(0), ..HaltFile::default() };
        file.carried_out(NO_CHECKPOINTS_LEFT);
        assert!(file.forget_own_reason());
        assert_eq!(file, HaltFile::default());
        file.carried_out("maintenance");
        assert!(!file.forget_own_reason());
        assert_eq!(file.due(0), Some("maintenance"));
        // It was asked for while the run came to its own end.
        file.carried_out(FINALIZE_CALLED);
        assert_eq!(file.due(0), Some("maintenance"));
    }
}
