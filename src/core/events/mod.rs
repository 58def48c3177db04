//! The log of events (`SCR_LOG_ENABLE`): a database, text, syslog. A thread of rank 0 writes, so
//! that nothing that the program waits for waits for the log, once a second at most: a process that
//! is killed takes the last ones with it. A place that cannot be written to is left alone after one
//! message; events that come too fast are counted, not waited for.

mod database;
mod event;
mod query;
mod sink;
mod syslog;
mod text;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use database::Database;
pub use event::{Event, LoggedJob};
pub(crate) use event::{GIVEN_UP, SEALED_ON_PREFIX};
pub use query::{Filter, Logged, parse_line};
pub use sink::EventSink;
pub use syslog::Syslog;
pub use text::TextFile;

use crate::error::{Error, Result};
use crate::log::{self, messages};

const WAITING_MAX: usize = 4096;

const BATCH_MAX: usize = 256;

/// Events that happen together are written together.
const GATHER: Duration = Duration::from_millis(100);

const PERIOD: Duration = Duration::from_secs(1);

/// The log of one launch. Dropping it leaves the thread to write what is waiting.
pub struct EventLog {
    sender: Mutex<Option<SyncSender<Event>>>,
    done: Mutex<Receiver<()>>,
    lost: Arc<AtomicU64>,
}

impl EventLog {
    /// Starts the thread; `enter` is the first that the thread does.
    pub fn start(
        job: LoggedJob,
        sinks: Vec<Box<dyn EventSink>>,
        enter: impl FnOnce() + Send + 'static,
    ) -> Result<EventLog> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let (finished, done) = channel();
        let body = move || {
            enter();
            write_all(&job, sinks, &receiver);
            // Nobody may wait for it any more.
            let _ = finished.send(());
        };
        std::thread::Builder::new()
            .name("scr-log".into())
            .spawn(body)
            .map_err(|error| Error::Process(format!("no thread for the log: {error}")))?;
        let lost = Arc::default();
        Ok(EventLog { sender: Mutex::new(Some(sender)), done: Mutex::new(done), lost })
    }

    /// Takes an event to be written; it is lost, and counted, if too many are waiting. Never waits.
    pub fn tell(&self, event: Event) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref()
            && let Err(TrySendError::Full(_)) = sender.try_send(event)
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes no more events, and waits until all are written, but not longer than `limit`.
    /// `is_missed`: whether a person wants to hear that they are not.
    pub fn close(&self, limit: Duration, is_missed: bool) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if sender.is_none() {
            return;
        }
        drop(sender);
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let late = done.recv_timeout(limit).is_err();
        let lost = self.lost.load(Ordering::Relaxed);
        if late || lost > 0 {
            let text = "the log of events is not complete: it could not keep up";
            log::warn_if(is_missed, messages::LOG_INCOMPLETE, text);
        }
    }
}

fn write_all(job: &LoggedJob, mut sinks: Vec<Box<dyn EventSink>>, events: &Receiver<Event>) {
    let mut written: Option<Instant> = None;
    while let Some(batch) = next_batch(events, written) {
        written = Some(Instant::now());
        sinks.retain_mut(|sink| match sink.write(job, &batch) {
            Ok(()) => true,
            Err(why) => {
                let text = format!("{}: {why}; nothing more is logged there", sink.name());
                log::warn_if(sink.is_missed(), messages::LOG_FAILED, text);
                false
            }
        });
    }
}

/// The event begins something and is of no use alone: what comes of it is told later.
fn waits(event: &Event) -> bool {
    event.what.ends_with("_BEGIN") || event.what == "COMPUTE_END"
}

/// Waits for events, and for what comes together with them; `None` when the log is closed and all
/// of it is written.
fn next_batch(events: &Receiver<Event>, written: Option<Instant>) -> Option<Vec<Event>> {
    let mut batch = Vec::new();
    let mut until: Option<Instant> = None;
    while batch.len() < BATCH_MAX {
        let next = match until {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => events.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        let Ok(event) = next else { break };
        if until.is_none() && !waits(&event) {
            let soon = Instant::now() + GATHER;
            until = Some(written.map_or(soon, |written| soon.max(written + PERIOD)));
        }
        batch.push(event);
    }
    (!batch.is_empty()).then_some(batch)
}
