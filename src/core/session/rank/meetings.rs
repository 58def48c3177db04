//! Folders of the prefix in which the ranks of a launch meet, or share what they have told.

use crate::launch::meeting::Meeting;
use crate::log;
use crate::session::rank::Rank;

/// Folders below the state folder in which ranks that exit meet.
const EXIT_FOLDER: &str = "exit.";

/// Folders below the state folder with a file for each thing that was told to a person.
const TOLD_FOLDER: &str = "told.";

impl Rank {
    /// Returns where the ranks of this launch meet for `of`.
    pub(crate) fn meeting(&self, of: &str) -> Meeting {
        let folder = format!("{EXIT_FOLDER}{:016x}", self.launch);
        let folder = self.site.state_dir().join(folder).join(of);
        Meeting { folder, rank: self.site.rank, size: self.site.size }
    }

    /// Makes one of the ranks tell what they tell a person once.
    pub(crate) fn share_messages(&self) {
        log::share(Some(self.site.state_dir().join(format!("{TOLD_FOLDER}{:016x}", self.launch))));
    }

    /// Removes the folders in which the ranks of earlier launches met. For rank 0.
    pub(crate) fn sweep_meetings(&self) {
        let Ok(entries) = std::fs::read_dir(self.site.state_dir()) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let meeting = name.strip_prefix(EXIT_FOLDER).or_else(|| name.strip_prefix(TOLD_FOLDER));
            if meeting.is_some_and(|launch| launch != format!("{:016x}", self.launch)) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}
