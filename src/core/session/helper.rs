//! The helper thread of a rank: files that no sync point comes for go to the PFS without MPI.

use std::time::Duration;

use super::runtime::Session;
use crate::log;
use crate::system::block_signals;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(500);

impl Session {
    /// Starts the thread. It lives as long as the process, so the session must, too.
    pub fn start_helper(&'static self) {
        let enter = self.site.host.enter_thread;
        let body = move || {
            block_signals();
            enter();
            while !self.is_ended() {
                std::thread::sleep(PERIOD);
                self.publish_overdue();
                self.tell_published();
            }
        };
        let name = "scr-helper".to_string();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(body) {
            log::warn_once(
                "helper",
                format_args!(
                    "rank {}: no helper thread ({error}); files wait for a collective call",
                    self.site.rank
                ),
            );
        }
    }
}
