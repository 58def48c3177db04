//! `SCR_WATCHDOG`: a run that does not get on is to end, so that it can be restarted.

use std::time::{Duration, Instant};

use crate::params::{Settings, Source, keys};

pub(crate) struct Watchdog {
    limit: Duration,
    limit_on_prefix: Duration,
    seen: SignsOfLife,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignsOfLife {
    /// Id of the newest dataset that is sealed.
    pub newest: u64,
    pub to_prefix: bool,
}

impl Watchdog {
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

    pub fn look(&mut self, now: SignsOfLife) -> Option<Duration> {
        if self.seen != now {
            self.seen = now;
            self.since = Instant::now();
        }
        let limit = if now.to_prefix { self.limit_on_prefix } else { self.limit };
        (self.since.elapsed() > limit).then_some(limit)
    }
}

/// Whoever sets a time wants it, unless SCR_WATCHDOG=0 is set, too.
fn is_watched(settings: &Settings) -> bool {
    let is_default = settings.source(keys::WATCHDOG.param.name) == Source::Default;
    is_default || settings.get(keys::WATCHDOG)
}
