//! How fast each node seals and flushes. Every rank adds up what its own part took; its reports
//! carry the sums, and rank 0 has those of the nodes for the run record and the log.

use crate::comm::words;
use crate::error::Result;
use crate::events::Event;
use crate::records::RunRecord;
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;

/// Bytes and nanoseconds of the seals, then of the flushes.
pub(in crate::session) type Paces = [u64; 4];

/// Bytes of [`Paces`] behind a report.
const TAIL: usize = size_of::<Paces>();

impl Session {
    fn paces(&self) -> Paces {
        let ([seal_bytes, seal], [flush_bytes, flush]) =
            (self.tally.sealed.words(), self.site.transfer.flushed.words());
        [seal_bytes, seal, flush_bytes, flush]
    }

    /// Adds what this rank has sealed and flushed to the bytes of its `report`.
    pub(in crate::session) fn with_paces(&self, mut report: Vec<u8>) -> Vec<u8> {
        report.extend(self.paces().into_iter().flat_map(u64::to_be_bytes));
        report
    }

    /// Takes off all ranks' reports what [`Session::with_paces`] has added.
    pub(in crate::session) fn take_paces<'a>(&self, gathered: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
        let (reports, paces): (Vec<_>, Vec<Paces>) = gathered.iter().map(|all| split(all)).unzip();
        self.events.run.move_at(&paces);
        reports
    }

    /// Gathers for the run record what all ranks have sealed and flushed, the last flush included.
    /// Collective.
    ///
    /// # Errors
    /// Communication failed.
    pub(in crate::session) fn gather_paces(&self, links: &Links) -> Result<()> {
        self.events.run.move_at(&words::all_gather(links.world.as_ref(), self.paces())?);
        Ok(())
    }
}

/// A report, and what is behind it: nothing, if there is no room for it.
fn split(bytes: &[u8]) -> (&[u8], Paces) {
    let Some((report, tail)) = bytes.split_last_chunk::<TAIL>() else { return (bytes, [0; 4]) };
    let mut words = tail.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_be_bytes));
    (report, std::array::from_fn(|_| words.next().unwrap_or(0)))
}

/// Makes the events that tell how fast each node of a launch was.
pub(super) fn pace_events(record: &RunRecord) -> Vec<Event> {
    let mut events = Vec::new();
    for (host, node) in &record.nodes {
        for (what, pace) in [("NODE_SEAL", node.sealed), ("NODE_FLUSH", node.flushed)] {
            let event = Event::new(what).seconds(pace.seconds()).size(0, pace.bytes);
            events.extend((pace.bytes > 0).then(|| event.note(host)));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_report_is_taken_off() {
        let bytes = [&b"report"[..], &[0; 31], &[7]].concat();
        assert_eq!(split(&bytes), (&b"report"[..], [0, 0, 0, 7]));
        assert_eq!(split(b"short"), (&b"short"[..], [0; 4]));
    }
}
