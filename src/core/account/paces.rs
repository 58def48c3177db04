//! How fast each node seals and flushes. Every rank adds up what its own part took; its reports
//! carry the sums, and rank 0 has those of the nodes for the run record and the log.

use crate::events::Event;
use crate::records::RunRecord;

/// Bytes and nanoseconds of the seals, then of the flushes.
pub(crate) type Paces = [u64; 4];

const TAIL: usize = size_of::<Paces>();

pub(crate) fn split(bytes: &[u8]) -> (&[u8], Paces) {
    let Some((report, tail)) = bytes.split_last_chunk::<TAIL>() else { return (bytes, [0; 4]) };
    let mut words = tail.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_be_bytes));
    (report, std::array::from_fn(|_| words.next().unwrap_or(0)))
}

pub(crate) fn pace_events(record: &RunRecord) -> Vec<Event> {
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
