//! The end of a process without MPI_Finalize. When exit(3) begins ([`Ending::exit`]), a destructor
//! may still call MPI_Finalize; when the last file is closed, [`Ending::leave`] does what can be
//! done without MPI.

use std::time::{Duration, Instant};

use crate::launch::meeting::Meeting;
use crate::log::{self, messages};
use crate::machine::DatasetKey;
use crate::records::{DatasetRecord, RecordedState};
use crate::session::ending::Ending;
use crate::session::rank::stage::Milestone;
use crate::transfer::{Background, announce_background};

/// For a flush by threads that was under way when the process came to its end.
const FLUSH_WAIT: Duration = Duration::from_secs(60);

impl Ending {
    /// Begins an end without MPI_Finalize: what is closed and nowhere else goes to the
    /// PFS, now and at every close from here on.
    pub(crate) fn exit(&self) {
        if self.rank.is_child() || self.rank.is_ended() || self.rank.reach(Milestone::Exiting) {
            return;
        }
        self.node.state().machine.begin_exit();
        drop(self.handles.end_lent());
        self.unsealed.publish_overdue();
    }

    /// Ends a process that has closed its last file: it goes as soon as the others may, too.
    pub(crate) fn leave(&self) {
        if self.rank.is_child() || self.rank.is_ended() || !self.rank.is_exiting() {
            return;
        }
        self.handles.end_all_lent();
        self.unsealed.publish_overdue();
        self.contents.publish_all_private();
        self.report.compute_ended();
        let all_there = self.save_together();
        self.flush.end_run("EXIT");
        self.rank.end_log("EXIT");
        self.rank.reach(Milestone::Ended);
        self.node.state().machine.end();
        // A pointer must not come before what the other ranks have written.
        let pointers = self.unsealed.publish_closed(all_there);
        if let Some(one) = pointers.first() {
            log::warn(
                messages::POINTER_HELD_BACK,
                format_args!(
                    "rank {}: not all ranks have ended: {} is not written to {}, where the \
                 checkpoint that it may name is perhaps not whole",
                    self.site.rank,
                    one.file,
                    self.site.prefix.display()
                ),
            );
        }
    }

    /// When all ranks have come to their end, and only then, each writes its files of the newest
    /// complete checkpoints: a part of one would be in a restart's way. Returns whether all are
    /// through with it.
    fn save_together(&self) -> bool {
        let unsaved = self.node.state().machine.unsaved();
        let announce = || unsaved.iter().for_each(|key| self.announce(key));
        let meeting = Meeting::of(&self.site, self.rank.launch, "ended");
        if !meeting.is_complete(announce) {
            return false;
        }
        let meeting = Meeting::of(&self.site, self.rank.launch, "saved");
        meeting.show_life_during(self.site.host.clone(), || {
            unsaved.iter().for_each(|key| self.save(key));
            self.await_flushes();
        });
        meeting.is_complete(|| self.flush.tell_published())
    }

    /// Rank 0 says what is about to come to the PFS.
    fn announce(&self, key: &DatasetKey) {
        let Some(record) = self.sealed_record(key) else { return };
        let (size, keep) = (self.site.size, self.site.transfer.prefix_size);
        if let Err(error) = announce_background(&self.site.prefix, &record, size, keep) {
            self.tell_unsaved(key, &error);
        }
    }

    fn save(&self, key: &DatasetKey) {
        let Some(record) = self.sealed_record(key) else { return };
        if self.flush.flushes().contains_key(&record.dataset_id) {
            return;
        }
        let running = self.flush.background().take();
        let ended = running.map_or(Ok(0), |(_, running)| running.finish());
        let saved = self.flush.begin_background(record, key).and_then(Background::finish);
        if let Err(error) = saved.and(ended) {
            self.tell_unsaved(key, &error);
        }
    }

    fn await_flushes(&self) {
        let since = Instant::now();
        self.flush.flushes().values().for_each(crate::transfer::AsyncFlush::hurry);
        while self.site.rank == 0 && self.flush.has_pending_flush() && since.elapsed() < FLUSH_WAIT
        {
            self.flush.advance_flushes();
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn tell_unsaved(&self, key: &DatasetKey, error: &crate::error::Error) {
        self.rank.complain(
            messages::NOT_SAVED,
            format_args!(
                "{error}: {} could not be written to {} at the end of the process, which \
                 has not called MPI_Finalize. It is in the cache",
                self.rank.title(key),
                self.site.prefix.display()
            ),
        );
    }

    /// The record of a dataset, if it is sealed and was not opened again.
    fn sealed_record(&self, key: &DatasetKey) -> Option<DatasetRecord> {
        let id = self.node.state().machine.id_of(key);
        let record = self.site.filemap.get_id(id)?;
        (record.state == RecordedState::Prepared).then_some(record)
    }
}
