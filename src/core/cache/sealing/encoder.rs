//! The encoding of a dataset on a thread of its own, while the program goes on: what
//! [`seal`](super::seal) does before the first vote, over a communicator of that thread alone.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::seal::{encode, fill_checksums, make_own_folder, measure, member_data, note_protection};
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::node::untouched;
use crate::cache::{Ctx, SealRequest};
use crate::comm::Comm;
use crate::comm::ranks::ranks_text;
use crate::error::{Error, Result};
use crate::files::sync_dir;
use crate::records::{DatasetRecord, FileMeta, RecordedState};
use crate::redundancy::{MemberData, Protection, RedundancySet, Scheme, scheme_by_name};
use crate::system::{Planted, planted, test_pause};

/// The rank's record with all that is known of its files, and its redundancy files.
#[derive(Debug)]
pub struct Encoded {
    pub(super) record: DatasetRecord,
    pub(super) protection: Protection,
    /// Whether all checksums could be taken, and are right.
    pub(super) checked: Result<()>,
    /// How long the encoding took this rank.
    pub(super) own_time: Duration,
}

impl Encoded {
    /// Puts together what a scheme has done for `record`; `program`: its files are remembered as
    /// they are now.
    fn of(mut record: DatasetRecord, protection: Protection, program: bool) -> Encoded {
        note_protection(&mut record, &protection);
        let dir = record.dir.clone();
        untouched::remember(&mut record, &dir, &protection.files, program);
        let checked = fill_checksums(&mut record, &protection);
        Encoded { record, protection, checked, own_time: Duration::ZERO }
    }
}

impl SealRequest<'_> {
    /// Makes the rank's record, but for what is found out about its files. An amended
    /// dataset lies under its id already, and so does one whose last seal failed late.
    pub(super) fn record(&self, ctx: &Ctx) -> DatasetRecord {
        let sealed_dir = ctx.layout.dataset_dir(self.store, self.id);
        let dir = match sealed_dir.exists() {
            true => sealed_dir,
            false => ctx.layout.open_dir(self.store, self.key),
        };
        let mut record = DatasetRecord {
            key: self.key.clone(),
            dataset_id: self.id,
            epoch: self.epoch,
            state: RecordedState::Prepared,
            confirmed: false,
            dir,
            expect: self.files.len() as u64,
            files: Vec::new(),
            descriptor: self.descriptor.clone(),
            prefix: None,
            tags: self.tags.clone(),
            left: BTreeSet::new(),
            gone: self.gone.clone(),
        };
        record.descriptor.set_value("STORE", self.store);
        record.descriptor.set_value("MEMBERS", ranks_text(&self.set.world_ranks));
        record
    }

    /// Tells whether other nodes reach the store.
    pub(super) fn is_shared(&self, ctx: &Ctx) -> bool {
        ctx.sharing.is_shared(ctx.layout.store_index(self.store))
    }
}

/// Does the part of the first phase that reads the files, with the program waiting. Collective over
/// the set; the outcome is this rank's, which it must not keep to itself.
pub(super) fn encode_now(ctx: &Ctx, request: &SealRequest) -> Result<Encoded> {
    let begin = Instant::now();
    let (mut record, is_shared) = (request.record(ctx), request.is_shared(ctx));
    let measured = make_own_folder(&record.dir)
        .and_then(|()| measure(&record.dir, is_shared, ctx.prefix, &request.files));
    // A rank that cannot take part says so here, or the others would wait for it.
    let data = measured.map(|files| {
        record.files = files;
        member_data(&record)
    });
    test_pause("seal.encode");
    let protection = encode(ctx, request.set, &record, data)?;
    sync_own_folder(&record.dir, is_shared)?;
    let encoded = Encoded::of(record, protection, !is_shared);
    Ok(Encoded { own_time: begin.elapsed(), ..encoded })
}

/// All that the thread needs.
pub struct Job {
    set: RedundancySet,
    scheme: &'static dyn Scheme,
    record: DatasetRecord,
    files: Vec<FileMeta>,
    prefix: PathBuf,
    is_shared: bool,
    careless: bool,
}

impl Job {
    /// Makes a job of what a seal is asked for; `comm` is the set's, and used by nobody else; it
    /// carries pieces of `piece_bytes`.
    ///
    /// # Errors
    /// There is no such scheme.
    pub fn new(
        ctx: &Ctx,
        request: &SealRequest,
        comm: Box<dyn Comm>,
        piece_bytes: usize,
    ) -> Result<Job> {
        let of = request.set;
        let type_name = request.descriptor.get_value("TYPE").unwrap_or_default();
        let scheme = scheme_by_name(type_name).ok_or_else(|| {
            Error::Missing(format!("no redundancy scheme is called \"{type_name}\""))
        })?;
        let set = RedundancySet {
            comm: comm.into(),
            world_ranks: of.world_ranks.clone(),
            hosts: of.hosts.clone(),
            group_id: of.group_id,
            world_size: of.world_size,
            failures: of.failures,
            piece_bytes,
        };
        Ok(Job {
            set,
            scheme,
            record: request.record(ctx),
            files: request.files.clone(),
            prefix: ctx.prefix.to_path_buf(),
            is_shared: request.is_shared(ctx),
            careless: planted(Planted::NoRedundancy),
        })
    }

    fn run(mut self) -> Result<Encoded> {
        let begin = Instant::now();
        let dir = self.record.dir.clone();
        let measured = make_own_folder(&dir)
            .and_then(|()| measure(&dir, self.is_shared, &self.prefix, &self.files));
        let data = measured.map(|files| {
            self.record.files = files;
            member_data(&self.record)
        });
        test_pause("seal.encode");
        let protection = encode_with(self.scheme, &self.set, data, self.careless)?;
        sync_own_folder(&dir, self.is_shared)?;
        let encoded = Encoded::of(self.record, protection, !self.is_shared);
        Ok(Encoded { own_time: begin.elapsed(), ..encoded })
    }
}

/// Makes the names of a rank's redundancy files durable where no leader of a node does it for all.
fn sync_own_folder(dir: &Path, is_shared: bool) -> Result<()> {
    if is_shared { sync_dir(&dir.join(OWN_FOLDER)) } else { Ok(()) }
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

type Outcome = Option<Result<Encoded>>;

/// The thread at work. If this is dropped, what comes of it is of no use.
pub struct Encoder(Arc<(Mutex<Outcome>, Condvar)>);

impl Encoder {
    /// Starts the thread, which calls `enter` first, and `leave` when it has done its work. If
    /// there can be none, that is its outcome.
    #[must_use]
    pub fn start(
        job: Job,
        enter: impl FnOnce() + Send + 'static,
        leave: impl FnOnce() + Send + 'static,
    ) -> Encoder {
        let place = Arc::new((Mutex::new(None), Condvar::new()));
        let shared = place.clone();
        let body = move || {
            // A panic would leave the program's thread waiting.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                enter();
                job.run()
            }));
            let stopped = || Err(Error::Defect("the encoding has stopped".to_string()));
            let outcome = outcome.unwrap_or_else(|_| stopped());
            leave();
            put(&shared, outcome);
        };
        if let Err(error) = thread::Builder::new().name("scr-encoder".to_string()).spawn(body) {
            put(&place, Err(Error::Remote(format!("no thread for the encoding: {error}"))));
        }
        Encoder(place)
    }

    /// Tells whether it has ended well; `None` if it goes on.
    #[must_use]
    pub fn ended(&self) -> Option<bool> {
        let outcome = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.as_ref().map(|outcome| outcome.as_ref().is_ok_and(|one| one.checked.is_ok()))
    }

    /// Waits for its end, calling `meanwhile` every `period`.
    ///
    /// # Errors
    /// What the thread has met; never [`Error::Comm`], since that is about its own communicator.
    pub fn wait(&self, period: Duration, mut meanwhile: impl FnMut()) -> Result<Encoded> {
        let (place, ended) = &*self.0;
        let mut outcome = place.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            let waited = ended.wait_timeout(outcome, period);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            meanwhile();
            outcome = place.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn put((place, ended): &(Mutex<Outcome>, Condvar), outcome: Result<Encoded>) {
    let outcome = outcome.map_err(|error| match error {
        Error::Comm(what) => Error::Remote(format!("the encoding beside the program: {what}")),
        error => error,
    });
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    ended.notify_all();
}
