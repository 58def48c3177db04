//! The encoding of a rank's part, with the program waiting or on a thread beside it, which has a
//! communicator of its own: what [`seal`](super::seal) does before the first vote.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::own_part::{
    SealRequest, fill_checksums, make_own_folder, measure, member_data, note_protection,
};
use crate::cache::Ctx;
use crate::cache::node::context::unknown_scheme;
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::node::untouched;
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::files::sync_dir;
use crate::records::{DatasetRecord, FileMeta};
use crate::redundancy::{MemberData, Protection, RedundancySet, Scheme, scheme_by_name};
use crate::system::{Planted, planted, test_pause};

/// A rank's part that is encoded: its record with all that is known of its files.
#[derive(Debug)]
pub struct Encoded {
    pub(super) record: DatasetRecord,
    pub(super) protection: Protection,
    pub(super) checked: Result<()>,
    pub(super) own_time: Duration,
}

struct Unencoded {
    record: DatasetRecord,
    files: Vec<FileMeta>,
    prefix: PathBuf,
    is_shared: bool,
    careless: bool,
}

impl Unencoded {
    fn of(ctx: &Ctx, request: &SealRequest) -> Unencoded {
        Unencoded {
            record: request.record(ctx),
            files: request.files.clone(),
            prefix: ctx.prefix.to_path_buf(),
            is_shared: ctx.sharing.is_shared(ctx.layout.store_index(request.store)),
            careless: planted(Planted::NoRedundancy),
        }
    }

    /// Reads the files. Collective over the set; the outcome is this rank's.
    fn encode(self, scheme: &dyn Scheme, set: &RedundancySet) -> Result<Encoded> {
        let begin = Instant::now();
        let mut record = self.record;
        let dir = record.dir.clone();
        let measured = make_own_folder(&dir)
            .and_then(|()| measure(&dir, self.is_shared, &self.prefix, &self.files));
        // A rank that cannot take part says so here, or the others would wait for it.
        let data = measured.map(|files| {
            record.files = files;
            member_data(&record)
        });
        test_pause("seal.encode");
        let protection = encode_with(scheme, set, data, self.careless)?;
        if self.is_shared {
            // No leader of a node makes the names of redundancy files durable for all ranks.
            sync_dir(&dir.join(OWN_FOLDER))?;
        }
        note_protection(&mut record, &protection.files);
        untouched::remember(&mut record, &dir, &protection.files, !self.is_shared);
        let checked = fill_checksums(&mut record, &protection);
        Ok(Encoded { record, protection, checked, own_time: begin.elapsed() })
    }
}

/// Encodes with the program waiting. Collective over the set; the outcome is this rank's, which it
/// must not keep to itself.
pub(super) fn encode_now(ctx: &Ctx, request: &SealRequest) -> Result<Encoded> {
    let part = Unencoded::of(ctx, request);
    let scheme = ctx.scheme_of(&part.record)?;
    part.encode(scheme, request.set)
}

/// Encodes `data`, in a test perhaps without keeping anything of it.
pub(super) fn encode_with(
    scheme: &dyn Scheme,
    set: &RedundancySet,
    data: Result<MemberData>,
    careless: bool,
) -> Result<Protection> {
    let dir = data.as_ref().map(|data| data.dir.clone()).unwrap_or_default();
    let outcome = scheme.encode(set, data);
    if careless {
        let own = outcome.iter().flat_map(|protection| &protection.files);
        own.for_each(|file| drop(fs::remove_file(dir.join(&file.name))));
    }
    outcome
}

pub struct EncoderJob {
    set: RedundancySet,
    scheme: &'static dyn Scheme,
    part: Unencoded,
}

impl EncoderJob {
    /// Makes a job. `comm` is the set's, carries `piece_bytes`, and is used by nobody else.
    pub fn new(
        ctx: &Ctx,
        request: &SealRequest,
        comm: Box<dyn Comm>,
        piece_bytes: usize,
    ) -> Result<EncoderJob> {
        let of = request.set;
        let type_name = request.descriptor.get_value("TYPE").unwrap_or_default();
        let scheme = scheme_by_name(type_name).ok_or_else(|| unknown_scheme(type_name))?;
        let set = RedundancySet {
            comm: comm.into(),
            world_ranks: of.world_ranks.clone(),
            hosts: of.hosts.clone(),
            group_id: of.group_id,
            world_size: of.world_size,
            failures: of.failures,
            piece_bytes,
        };
        Ok(EncoderJob { set, scheme, part: Unencoded::of(ctx, request) })
    }
}

/// The thread at work. If this is dropped, what comes of it is of no use.
pub struct Encoder(Arc<ThreadOutcome>);

#[derive(Default)]
struct ThreadOutcome {
    outcome: Mutex<Option<Result<Encoded>>>,
    ended: Condvar,
}

impl Encoder {
    /// Starts the thread, which calls `enter` first, and `leave` when it has done its work. If
    /// there can be none, that is its outcome.
    pub fn start(
        job: EncoderJob,
        enter: impl FnOnce() + Send + 'static,
        leave: impl FnOnce() + Send + 'static,
    ) -> Encoder {
        let place = Arc::<ThreadOutcome>::default();
        let shared = place.clone();
        let body = move || {
            // A panic would leave the program's thread waiting.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                enter();
                job.part.encode(job.scheme, &job.set)
            }));
            let stopped = || Err(Error::Defect("the encoding has stopped".to_string()));
            let outcome = outcome.unwrap_or_else(|_| stopped());
            leave();
            shared.put(outcome);
        };
        if let Err(error) = thread::Builder::new().name("scr-encoder".to_string()).spawn(body) {
            place.put(Err(Error::Remote(format!("no thread for the encoding: {error}"))));
        }
        Encoder(place)
    }

    /// Tells whether it has ended well; `None` if it goes on.
    pub fn ended(&self) -> Option<bool> {
        let outcome = self.0.lock();
        outcome.as_ref().map(|outcome| outcome.as_ref().is_ok_and(|one| one.checked.is_ok()))
    }

    /// Waits for its end, and looks for it every `period`.
    ///
    /// # Errors
    /// What the thread has met; never [`Error::Comm`], since that is about its own communicator.
    pub fn wait(&self, period: Duration) -> Result<Encoded> {
        loop {
            let mut outcome = self.0.lock();
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            let waited = self.0.ended.wait_timeout(outcome, period);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl ThreadOutcome {
    fn lock(&self) -> MutexGuard<'_, Option<Result<Encoded>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, outcome: Result<Encoded>) {
        let outcome = outcome.map_err(|error| match error {
            Error::Comm(what) => Error::Remote(format!("the encoding beside the program: {what}")),
            error => error,
        });
        *self.lock() = Some(outcome);
        self.ended.notify_all();
    }
}
