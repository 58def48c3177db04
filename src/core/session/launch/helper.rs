//! The helper thread of a rank: files that no sync point comes for, or that ranks of other nodes
//! wait for, go to the PFS without MPI.

use std::time::{Duration, Instant};

use crate::account::watchdog::{SignsOfLife, Watchdog};
use crate::cache::{Damaged, LateChecksums, Recheck};
use crate::events::Event;
use crate::log::{self, messages};
use crate::session::{Session, flush::serving::Served, rank::lock};
use crate::system::block_signals;

const PERIOD: Duration = Duration::from_millis(500);

/// On rank 0, while a flush by threads waits for its word.
const COMMIT_PERIOD: Duration = Duration::from_millis(50);

/// What was offered unread is compared in such steps, with a pause after each: that takes a few
/// percent of a processor's time.
const STEP_MIB: usize = 4;
const PAUSE: Duration = Duration::from_millis(10);

impl Session {
    fn watchdog(&self) -> Option<Watchdog> {
        let watchdog = Watchdog::new(&self.rank.site.settings, self.progress());
        watchdog.filter(|_| self.rank.site.rank == 0)
    }

    fn kill(&self, limit: Duration) -> ! {
        let why = format!("no checkpoint was completed for {} s", limit.as_secs_f64());
        log::warn(
            messages::WATCHDOG,
            format_args!("{why}: the run is killed (SCR_WATCHDOG_TIMEOUT)"),
        );
        self.rank.event(|| Event::new("HALT").note(format!("SCR_WATCHDOG_TIMEOUT: {why}")));
        self.flush.end_run("EXIT");
        self.rank.end_log("EXIT");
        self.rank.site.host.end_at_once(1)
    }

    fn progress(&self) -> SignsOfLife {
        let to_prefix = *lock(&self.flush.flushing);
        let state = self.node.state();
        let all = (0..self.rank.series.series().len()).flat_map(|at| state.machine.datasets(at));
        let newest = all.map(|dataset| dataset.id).max().unwrap_or(0);
        SignsOfLife { newest, to_prefix }
    }

    /// Waits, and compares meanwhile a little of what the start has offered unread.
    fn rest(&self, period: Duration, unread: &mut Option<Recheck>) {
        let begin = Instant::now();
        while let Some(left) = period.checked_sub(begin.elapsed()) {
            let Some(work) = unread.as_mut().filter(|work| !work.is_over()) else {
                *unread = None;
                return self.nap(left);
            };
            for _ in 0..STEP_MIB {
                match work.step(&self.rank.site.filemap) {
                    Ok(Some(damaged)) => self.tell_damaged_while_running(&damaged),
                    Ok(None) => {}
                    Err(error) => {
                        log::message(1, format_args!("rank {}: {error}", self.rank.site.rank));
                    }
                }
            }
            self.nap(PAUSE.min(left));
            if self.rank.is_ended() {
                return;
            }
        }
    }

    fn nap(&self, time: Duration) {
        std::thread::park_timeout(time);
        self.conference.evicted.remove();
    }

    /// The program may have begun from this checkpoint.
    fn tell_damaged_while_running(&self, found: &Damaged) {
        let record = &found.record;
        let scheme = record.descriptor.get_value("TYPE").unwrap_or_default();
        let follows = match scheme {
            "SINGLE" | "LOCAL" => "goes on from an older checkpoint".to_string(),
            _ => format!("rebuilds it ({scheme})"),
        };
        log::warn(
            messages::RESTART_DAMAGED,
            format_args!(
                "rank {} on {}: {} of {} is damaged: its content is not what was sealed. If this \
                 run has begun from it, its results are not to be trusted: end it and start it \
                 again. The next start compares all of it, and {follows}",
                self.rank.site.rank,
                self.rank.site.node_name,
                found.path.display(),
                record.key.title(),
            ),
        );
    }

    /// Starts the thread. It lives as long as the process, so the session must, too.
    pub fn start_helper(&'static self) {
        let body = move || {
            block_signals();
            self.rank.site.host.enter_thread();
            let mut late = LateChecksums::new(|| self.rank.site.host.enter_thread());
            self.conference.evicted.leave_to_this_thread();
            let mut watchdog = self.watchdog();
            let mut served = Served::default();
            let links = self.rank.links();
            let mut unread = links.map(|links| Recheck::of(&links.ctx(&self.rank.site)));
            loop {
                let commits = self.rank.site.rank == 0 && self.flush.has_pending_flush();
                self.rest(if commits { COMMIT_PERIOD } else { PERIOD }, &mut unread);
                if self.rank.is_ended() {
                    return;
                }
                if let Some(limit) =
                    watchdog.as_mut().and_then(|watchdog| watchdog.look(self.progress()))
                {
                    self.kill(limit);
                }
                drop(self.handles.end_lent());
                self.rank.mention_if_failed(self.rank.site.filemap.write_begun());
                self.rank.mention_if_failed(late.advance(&self.rank.site.filemap));
                self.contents.note_thrown_away();
                self.unsealed.publish_overdue();
                self.flush.serve_wanted(&mut served);
                self.flush.tell_published();
                self.flush.advance_flushes();
                self.flush.record_places();
                self.flush.record_run_in_time();
            }
        };
        if let Err(error) = std::thread::Builder::new().name("scr-helper".into()).spawn(body) {
            self.rank.complain(
                messages::NO_THREAD,
                format_args!("no helper thread ({error}); files wait for a collective call"),
            );
        }
    }
}
