//! `SCR_WATCHDOG`: a run that does not get on is to end, so that it can be restarted.

use std::time::{Duration, Instant};

use crate::params::{Settings, Source, keys};

/// Looks whether a run gets on.
pub(crate) struct Watchdog {
    limit: Duration,
    limit_on_prefix: Duration,
    seen: SignsOfLife,
    since: Instant,
}

/// What tells that a run is getting on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignsOfLife {
    /// Of the newest dataset that is sealed.
    pub newest: u64,
    /// Checkpoints go to the prefix.
    pub to_prefix: bool,
}

impl Watchdog {
    /// Makes one, if the user wants it.
    pub fn new(settings: &Settings, now: SignsOfLife) -> Option<Watchdog> {
        let limit = settings.get_optional(keys::WATCHDOG_TIMEOUT)?;
        let on_prefix = settings.get_optional(keys::WATCHDOG_TIMEOUT_PFS);
        is_watched(settings).then(|| Watchdog {
            limit,
            limit_on_prefix: on_prefix.unwrap_or(limit),
            seen: now,
            since: Instant::now(),
        })
    }

    /// Returns the limit that the run has exceeded, if it has.
    pub fn look(&mut self, now: SignsOfLife) -> Option<Duration> {
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
