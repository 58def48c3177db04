//! What the streams of this rank agree on ([`crate::streams`]): a communicator of ours for each.

use std::sync::{Arc, MutexGuard, PoisonError};

use crate::cache::agree::any;
use crate::comm::Comm;
use crate::error::Result;
use crate::session::conference::{Conference, Meetings};
use crate::streams::{CALLS, WORLD};
use crate::system::monotonic_ms;

impl Conference {
    /// Takes a communicator for each of [`crate::streams::STREAMS`], before the first sync point.
    pub fn serve_streams(&self, comms: Vec<Box<dyn Comm>>) {
        *self.meetings() = comms.into_iter().map(|comm| Some(Arc::from(comm))).collect();
    }

    /// Returns the places that this rank has for one more stream, as bits. All ranks call it, and
    /// [`Conference::place_stream`] after it.
    pub fn seek_stream(&self) -> u64 {
        self.site.host.inside(|| self.node.state().machine.streams().seek())
    }

    /// Gives the communicator the first of the places that all ranks have.
    pub fn place_stream(&self, on_all: u64) -> Option<usize> {
        self.site.host.inside(|| self.node.state().machine.streams().place(on_all, monotonic_ms()))
    }

    pub fn close_stream(&self, stream: usize) {
        self.site.host.inside(|| self.node.state().machine.streams().close(stream));
    }

    /// Takes this rank's turn for a call that all ranks make, with what other threads agree on
    /// before or after it. Collective. [`Conference::give_turn`] ends it.
    pub fn take_turn(&self) -> Result<()> {
        self.site.host.inside(|| {
            let comm = self.meetings().get(CALLS).cloned().flatten();
            let Some(comm) = comm else { return Ok(()) };
            loop {
                comm.barrier()?;
                let taken = self.node.state().machine.streams().take_turn();
                if !any(comm.as_ref(), !taken)? {
                    return Ok(());
                }
                self.node.state().machine.streams().end_turn(CALLS);
            }
        })
    }

    pub fn give_turn(&self) {
        self.site.host.inside(|| self.node.state().machine.streams().end_turn(CALLS));
    }

    pub(crate) fn calls(&self) -> usize {
        if self.meetings().is_empty() { WORLD } else { CALLS }
    }

    pub(crate) fn meetings(&self) -> MutexGuard<'_, Meetings> {
        self.meetings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn comm_of(&self, stream: usize) -> Option<Arc<dyn Comm>> {
        let own = self.meetings();
        if own.is_empty() {
            drop(own);
            return self.rank.links().map(|links| links.world.clone());
        }
        own[stream].clone()
    }

    /// Notes that the stream cannot agree any more. Its communicator is not freed: that may wait
    /// for ranks that are gone.
    pub(super) fn forget_meeting(&self, stream: usize) {
        if let Some(place) = self.meetings().get_mut(stream) {
            std::mem::forget(place.take());
        }
    }
}
