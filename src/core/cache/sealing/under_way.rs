//! Threads that encode beside the program, and what a seal is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::encoder::Encoder;
use super::own_part::SealRequest;
use crate::comm::Comm;
use crate::comm::mesh::Link;
use crate::kvtree::KvTree;
use crate::machine::{DatasetKey, SealPlan};
use crate::records::{self, FileMeta};
use crate::redundancy::RedundancySet;

pub(crate) struct SealAsked {
    pub key: records::RecordKey,
    pub(crate) store: String,
    pub(crate) files: Vec<FileMeta>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) gone: BTreeMap<String, u64>,
    pub(crate) set: RedundancySet,
    pub(crate) descriptor: KvTree,
}

impl SealAsked {
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

pub(crate) struct EncodingUnderWay {
    pub(crate) encoder: Encoder,
    pub(crate) asked: SealAsked,
    pub(crate) begun: Instant,
    /// Connections that nobody else uses before its end.
    pub(crate) link: Option<Arc<dyn Link>>,
}

/// A communicator for a thread beside the program, and its connections, if it has some.
pub(crate) type CommAside = (Box<dyn Comm>, Option<Arc<dyn Link>>);

/// Connections of the set that encoded last, with its world ranks; not while they are in use.
pub(crate) type KeptMesh = (Vec<usize>, Arc<dyn Link>);

#[derive(Default)]
pub(crate) struct Encoders {
    under_way: Mutex<BTreeMap<DatasetKey, EncodingUnderWay>>,
    kept: Mutex<Option<KeptMesh>>,
}

impl Encoders {
    pub(crate) fn all(&self) -> MutexGuard<'_, BTreeMap<DatasetKey, EncodingUnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Option<KeptMesh>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
