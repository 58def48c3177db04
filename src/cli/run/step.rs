//! One launch: its process, the signals that are passed on to it, and the watchdog.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use scr_core::error::{Error, Result};
use scr_core::log::messages::{self, Id};
use scr_core::operations::run::End;
use scr_core::operations::{read_flush_file, read_halt_file, read_index};
use scr_core::params::{Settings, keys};
use scr_core::records::{FlushState, Location, PrefixIndex};
use scr_core::system::send_signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use crate::base::process::exit_code;
use crate::base::say;
use crate::watch::halt::IMMEDIATE;

pub fn warn(id: Id, text: &str) {
    say::tell("run", id, text);
}

/// Between two looks at the files that tell of progress.
const LOOK: Duration = Duration::from_millis(500);
/// How long a launch may take to end after it was asked to.
const END_MAX: Duration = Duration::from_secs(20);

pub struct Signals(Receiver<Signal>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signal {
    number: i32,
    /// A key at the terminal: all of its foreground processes have it, the launcher included.
    by_key: bool,
}

impl Signals {
    pub fn new() -> Result<Signals> {
        let wanted = [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        let mut signals = SignalsInfo::<WithOrigin>::new(wanted)
            .map_err(|error| Error::Process(format!("cannot receive signals: {error}")))?;
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for origin in signals.forever() {
                let number = origin.signal;
                let by_key = [SIGINT, SIGQUIT].contains(&number) && origin.process.is_none();
                if sender.send(Signal { number, by_key }).is_err() {
                    break;
                }
            }
        });
        Ok(Signals(receiver))
    }

    /// The next one that comes within `limit`. The thread that receives them does not end.
    fn next(&self, limit: Duration) -> Option<Signal> {
        match self.0.recv_timeout(limit) {
            Ok(signal) => Some(signal),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(limit);
                None
            }
        }
    }

    /// Waits; returns a signal that ends the waiting for good.
    pub fn pause(&self, length: Duration) -> Option<i32> {
        let begin = Instant::now();
        while let Some(left) = length.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
            if let Some(signal) = self.next(left).filter(|signal| wants_end(signal.number)) {
                return Some(signal.number);
            }
        }
        None
    }
}

fn wants_end(signal: i32) -> bool {
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal)
}

/// When a run counts as hung (SCR_WATCHDOG_TIMEOUT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchdogLimits {
    timeout: Duration,
    /// The same while a flush is under way.
    timeout_pfs: Duration,
}

impl WatchdogLimits {
    /// Reads the limits from the settings. `None`: no watchdog.
    pub fn of(settings: &Settings) -> Option<WatchdogLimits> {
        let timeout = settings.get_optional(keys::WATCHDOG_TIMEOUT)?;
        let switch = keys::WATCHDOG;
        let off = settings.is_asked_for(switch.param.name) && !settings.get(switch);
        let timeout_pfs = settings.get_optional(keys::WATCHDOG_TIMEOUT_PFS).unwrap_or(timeout);
        (!off && !timeout.is_zero()).then_some(WatchdogLimits { timeout, timeout_pfs })
    }
}

/// Sees whether checkpoints come: flush file and index change with each.
struct Watchdog {
    limits: WatchdogLimits,
    prefix: PathBuf,
    seen: Option<(FlushState, PrefixIndex)>,
    since: Instant,
}

impl Watchdog {
    fn new(limits: WatchdogLimits, prefix: &Path) -> Watchdog {
        let mut this =
            Watchdog { limits, prefix: prefix.to_owned(), seen: None, since: Instant::now() };
        this.seen = this.look();
        this
    }

    /// What cannot be read just now has not changed.
    fn look(&self) -> Option<(FlushState, PrefixIndex)> {
        Some((read_flush_file(&self.prefix).ok()?, read_index(&self.prefix).ok()?))
    }

    /// How long nothing has come, if that is too long.
    fn late(&mut self) -> Option<Duration> {
        if let Some(now) = self.look()
            && self.seen.as_ref() != Some(&now)
        {
            self.seen = Some(now);
            self.since = Instant::now();
        }
        let flushing =
            self.seen.as_ref().is_some_and(|(flush, _)| !flush.at(Location::Flushing).is_empty());
        let limit = if flushing { self.limits.timeout_pfs } else { self.limits.timeout };
        Some(self.since.elapsed()).filter(|passed| *passed >= limit)
    }
}

/// Runs a launch to its end. `interrupted` hears of signals that want the end of everything.
pub fn run(
    command: &mut Command,
    signals: &Signals,
    prefix: &Path,
    limits: Option<WatchdogLimits>,
    mut interrupted: impl FnMut(i32),
) -> Result<End> {
    let mut watchdog = limits.map(|limits| Watchdog::new(limits, prefix));
    let mut child =
        command.spawn().map_err(|error| Error::io("cannot run", command.get_program(), error))?;
    let mut looked = Instant::now();
    loop {
        match signals.next(LOOK.saturating_sub(looked.elapsed())) {
            Some(Signal { number: SIGCHLD, .. }) | None => {}
            Some(signal) => {
                // It must not have the same signal twice.
                if !signal.by_key {
                    send_signal(child.id(), signal.number);
                }
                if wants_end(signal.number) {
                    interrupted(signal.number);
                }
            }
        }
        if let Some(status) = ended(&mut child)? {
            return Ok(End::Exited(status));
        }
        if looked.elapsed() < LOOK {
            continue;
        }
        looked = Instant::now();
        if let Some(passed) = watchdog.as_mut().and_then(Watchdog::late) {
            let passed = passed.as_secs();
            let text = format!(
                "no checkpoint was completed for {passed} s (SCR_WATCHDOG_TIMEOUT): the run is \
                 killed"
            );
            warn(messages::WATCHDOG, &text);
            return Ok(End::Hung(kill(&mut child, signals)?));
        }
        let halt = read_halt_file(prefix).ok().and_then(|file| file.exit_reason);
        if halt.as_deref() == Some(IMMEDIATE) {
            warn(messages::HALT, "'scr halt --immediate': the run is killed");
            return Ok(End::Exited(kill(&mut child, signals)?));
        }
    }
}

fn ended(child: &mut Child) -> Result<Option<u8>> {
    let status = child.try_wait();
    let status =
        status.map_err(|error| Error::Process(format!("cannot wait for the run: {error}")))?;
    Ok(status.map(exit_code))
}

/// Ends a launch: launchers kill their ranks when they are asked to end; one that does not end is
/// killed itself, and its daemons on the nodes notice that.
fn kill(child: &mut Child, signals: &Signals) -> Result<u8> {
    let begin = Instant::now();
    send_signal(child.id(), SIGTERM);
    loop {
        if let Some(status) = ended(child)? {
            // A run that was killed has failed, whatever its launcher says of it.
            return Ok(status.max(1));
        }
        if begin.elapsed() > END_MAX {
            send_signal(child.id(), SIGKILL);
        }
        signals.next(LOOK);
    }
}
