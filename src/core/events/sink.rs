//! What can be written to.

use super::event::{Event, LoggedJob};

/// A place that events are written to.
pub trait EventSink: Send {
    /// For messages.
    fn name(&self) -> String;

    /// Writes events of `job`, in order. The error says why not; nothing more is written then.
    fn write(&mut self, job: &LoggedJob, events: &[Event]) -> std::result::Result<(), String>;

    /// A person wants to hear that it does not work.
    fn is_missed(&self) -> bool {
        true
    }
}
