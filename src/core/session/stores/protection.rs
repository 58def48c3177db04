//! Schemes and redundancy sets on the placement of this launch.

use crate::cache::Protect;
use crate::comm::Comm;
use crate::descriptors::{Descriptors, RedundancyDesc};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::params::{Settings, keys};
use crate::redundancy::{RedundancySet, Scheme, scheme_by_name};

/// Who protects whom; the same on all ranks but for the rank itself.
pub struct Sets {
    /// All ranks, on a communicator that only this uses.
    world: Box<dyn Comm>,
    descriptors: Descriptors,
    piece_bytes: usize,
}

impl Sets {
    /// Makes sets for `descriptors`, which know the host of every rank.
    pub fn new(world: Box<dyn Comm>, descriptors: Descriptors, settings: &Settings) -> Self {
        let piece_bytes = usize::try_from(settings.get(keys::MPI_BUF_SIZE)).unwrap_or(usize::MAX);
        Sets { world, descriptors, piece_bytes }
    }
}

impl Protect for Sets {
    fn scheme(&self, type_name: &str) -> Option<&dyn Scheme> {
        scheme_by_name(type_name).map(|scheme| scheme as &dyn Scheme)
    }

    fn choose(&self, descriptor: &KvTree) -> Result<(RedundancySet, KvTree)> {
        let (member, complete) = self.descriptors.choose(descriptor, self.world.rank())?;
        let comm = self
            .world
            .split(member.group_id as i64, member.rank as i64)?
            .ok_or_else(|| Error::Comm("a split gave no communicator".to_string()))?;
        let hosts = self.descriptors.groups.hosts();
        let failures = RedundancyDesc::from_tree(&complete).map_or(1, |found| found.set_failures);
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

    fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    fn is_spread(&self, descriptor: &KvTree, world_ranks: &[usize]) -> bool {
        self.descriptors.is_spread(descriptor, world_ranks)
    }
}
