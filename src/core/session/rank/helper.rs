//! The helper thread of a rank: files that no sync point comes for, or that ranks of other nodes
//! wait for, go to the PFS without MPI.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::runtime::Session;
use crate::events::Event;
use crate::log;
use crate::params::{Settings, Source, keys};
use crate::session::flush::serving::Served;
use crate::system::block_signals;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(500);

/// The same on rank 0 while a flush by threads waits for its word.
const COMMIT_PERIOD: Duration = Duration::from_millis(50);

/// `SCR_WATCHDOG`: ends a run that hangs, so that it can be restarted.
struct Watchdog {
    limit: Duration,
    limit_on_prefix: Duration,
    seen: Progress,
    since: Instant,
}

/// What tells that a run is getting on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    newest: u64,
    to_prefix: bool,
}

impl Watchdog {
    /// The limit that the run has exceeded, if it has.
    fn look(&mut self, now: Progress) -> Option<Duration> {
        if self.seen != now {
            self.seen = now;
            self.since = Instant::now();
        }
        let limit = if now.to_prefix { self.limit_on_prefix } else { self.limit };
        (self.since.elapsed() > limit).then_some(limit)
    }
}

/// Whoever gives a time means it; SCR_WATCHDOG=0 is the word against it.
fn is_watched(settings: &Settings) -> bool {
    let is_default = settings.source(keys::WATCHDOG.param.name) == Source::Default;
    is_default || settings.get(keys::WATCHDOG)
}

impl Session {
    /// On rank 0, if the user wants it.
    fn watchdog(&self) -> Option<Watchdog> {
        let settings = &self.site.settings;
        let limit = settings.get_optional(keys::WATCHDOG_TIMEOUT)?;
        let on_prefix = settings.get_optional(keys::WATCHDOG_TIMEOUT_PFS);
        let wanted = is_watched(settings) && self.site.rank == 0;
        wanted.then(|| Watchdog {
            limit,
            limit_on_prefix: on_prefix.unwrap_or(limit),
            seen: self.progress(),
            since: Instant::now(),
        })
    }

    /// The run does not get on.
    fn kill(&self, limit: Duration) -> ! {
        let why = format!("no checkpoint was completed for {} s", limit.as_secs_f64());
        log::warn(format_args!("{why}: the run is killed (SCR_WATCHDOG_TIMEOUT)"));
        self.event(|| Event::new("HALT").note(format!("SCR_WATCHDOG_TIMEOUT: {why}")));
        self.end_run("EXIT");
        self.end_log("EXIT");
        self.site.host.end_at_once(1)
    }

    fn progress(&self) -> Progress {
        let state = self.state();
        let all = (0..self.series.series().len()).flat_map(|at| state.machine.datasets(at));
        let newest = all.map(|dataset| dataset.id).max().unwrap_or(0);
        let to_prefix = self.flushing.load(Ordering::Relaxed);
        Progress { newest, to_prefix }
    }

    /// Starts the thread. It lives as long as the process, so the session must, too.
    pub fn start_helper(&'static self) {
        let body = move || {
            block_signals();
            self.site.host.enter_thread();
            let mut watchdog = self.watchdog();
            let mut served = Served::default();
            loop {
                let commits = self.site.rank == 0 && self.has_pending_flush();
                std::thread::sleep(if commits { COMMIT_PERIOD } else { PERIOD });
                if self.is_ended() {
                    return;
                }
                if let Some(limit) =
                    watchdog.as_mut().and_then(|watchdog| watchdog.look(self.progress()))
                {
                    self.kill(limit);
                }
                drop(self.end_lent());
                self.publish_overdue();
                self.serve_wanted(&mut served);
                self.tell_published();
                self.advance_flushes();
                self.record_places();
                self.record_run_in_time();
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
