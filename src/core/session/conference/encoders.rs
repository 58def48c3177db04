//! Threads that encode beside the program, and what a seal is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crate::cache::{Encoder, SealRequest};
use crate::comm::Comm;
use crate::comm::mesh::Link;
use crate::comm::slices::Slices;
use crate::kvtree::KvTree;
use crate::machine::{DatasetKey, SealPlan};
use crate::records::{self, FileMeta};
use crate::redundancy::RedundancySet;
use crate::session::rank::lock;

/// All that a seal needs to know of this rank's part.
pub(crate) struct SealAsked {
    pub key: records::DatasetKey,
    pub(super) store: String,
    pub(super) files: Vec<FileMeta>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) gone: BTreeMap<String, u64>,
    pub(super) set: RedundancySet,
    pub(super) descriptor: KvTree,
}

impl SealAsked {
    /// Returns the request of this plan's seal.
    pub fn request(&self, plan: &SealPlan) -> SealRequest<'_> {
        SealRequest {
            key: &self.key,
            id: plan.id,
            epoch: plan.epoch,
            store: &self.store,
            files: self.files.clone(),
            tags: self.tags.clone(),
            gone: self.gone.clone(),
            set: &self.set,
            descriptor: &self.descriptor,
        }
    }
}

/// A thread that encodes, and for what.
pub(super) struct EncodingUnderWay {
    pub(super) encoder: Encoder,
    pub(super) asked: SealAsked,
    pub(super) begun: Instant,
    pub(super) ways: Ways,
}

/// How the thread communicates.
#[derive(Default)]
pub(super) struct Ways {
    /// What the program's thread carries for it, and over what: nothing else uses that.
    pub(super) slices: Option<(Arc<Slices>, Box<dyn Comm>)>,
    /// Its connections: nobody else uses them before its end.
    pub(super) link: Option<Arc<dyn Link>>,
}

impl EncodingUnderWay {
    /// Carries its messages a little further.
    pub(super) fn advance(&self) {
        if let Some((slices, comm)) = &self.ways.slices {
            slices.advance(&**comm);
        }
    }
}

/// Connections of the set that encoded last, with its world ranks; not while they are in use.
pub(super) type KeptMesh = (Vec<usize>, Arc<dyn Link>);

/// What this rank encodes beside the program.
#[derive(Default)]
pub(crate) struct Encoders {
    under_way: Mutex<BTreeMap<DatasetKey, EncodingUnderWay>>,
    kept: Mutex<Option<KeptMesh>>,
}

impl Encoders {
    pub(super) fn all(&self) -> MutexGuard<'_, BTreeMap<DatasetKey, EncodingUnderWay>> {
        lock(&self.under_way)
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Option<KeptMesh>> {
        lock(&self.kept)
    }
}
