//! What can be written to.

use super::event::{Event, Job};

/// A place that events are written to.
pub trait Sink: Send {
    /// What it is called in messages.
    fn name(&self) -> String;

    /// Writes events of `job`, in order.
    ///
    /// # Errors
    /// A clause that says why not; nothing more is written there then.
    fn write(&mut self, job: &Job, events: &[Event]) -> std::result::Result<(), String>;

    /// Whether a person wants to hear that it does not work.
    fn is_missed(&self) -> bool {
        true
    }
}
