//! Schemes and redundancy sets on the placement of this launch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::Protect;
use crate::comm::Comm;
use crate::descriptors::{Descriptors, RedundancyDesc, SchemeKind};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::params::{Settings, keys};
use crate::redundancy::{RedundancySet, Scheme, scheme_by_name};

/// Who protects whom; all of it is the same on all ranks.
pub struct Sets {
    world: Arc<dyn Comm>,
    descriptors: Descriptors,
    piece_bytes: usize,
    /// To make a communicator takes longer than to protect a small checkpoint.
    kept: Mutex<Vec<(Division, Arc<dyn Comm>)>>,
}

#[derive(Clone, PartialEq)]
struct Division {
    scheme: SchemeKind,
    group: String,
    set_size: usize,
    set_failures: usize,
    hop_distance: usize,
}

impl Division {
    fn of(descriptor: &RedundancyDesc) -> Division {
        Division {
            scheme: descriptor.scheme,
            group: descriptor.group.clone(),
            set_size: descriptor.set_size,
            set_failures: descriptor.set_failures,
            hop_distance: descriptor.hop_distance,
        }
    }
}

impl Sets {
    /// Returns the descriptors know the host of every rank.
    pub fn new(world: Arc<dyn Comm>, descriptors: Descriptors, settings: &Settings) -> Self {
        let piece_bytes = usize::try_from(settings.get(keys::MPI_BUF_SIZE)).unwrap_or(usize::MAX);
        Sets { world, descriptors, piece_bytes, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Division, Arc<dyn Comm>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn communicator(&self, division: Division, color: usize, key: usize) -> Result<Arc<dyn Comm>> {
        let known = self.kept().iter().find(|(known, _)| *known == division).cloned();
        if let Some((_, comm)) = known {
            return Ok(comm);
        }
        let comm = self.world.split(color as i64, key as i64)?;
        let none = || Error::Comm("a split gave no communicator".to_string());
        let comm: Arc<dyn Comm> = comm.ok_or_else(none)?.into();
        self.kept().push((division, comm.clone()));
        Ok(comm)
    }
}

impl Protect for Sets {
    fn scheme(&self, type_name: &str) -> Option<&dyn Scheme> {
        scheme_by_name(type_name).map(|scheme| scheme as &dyn Scheme)
    }

    fn choose(&self, descriptor: &KvTree) -> Result<(RedundancySet, KvTree)> {
        let (member, complete) = self.descriptors.choose(descriptor, self.world.rank())?;
        let unreadable =
            || Error::Unreadable("a dataset's redundancy descriptor is not readable".to_string());
        let descriptor = RedundancyDesc::from_tree(&complete).ok_or_else(unreadable)?;
        let failures = descriptor.set_failures;
        let comm = self.communicator(Division::of(&descriptor), member.group_id, member.rank)?;
        let hosts = self.descriptors.groups.hosts();
        let set = RedundancySet {
            comm,
            hosts: member.members.iter().map(|&rank| hosts[rank].clone()).collect(),
            world_ranks: member.members,
            group_id: member.group_id,
            world_size: self.world.size(),
            failures,
            piece_bytes: self.piece_bytes,
        };
        Ok((set, complete))
    }

    fn forget_failed(&self) {
        self.kept().clear();
    }

    fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    fn is_spread(&self, descriptor: &KvTree, world_ranks: &[usize]) -> bool {
        self.descriptors.is_spread(descriptor, world_ranks)
    }
}
