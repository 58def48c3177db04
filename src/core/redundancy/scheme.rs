//! The contract between the schemes and those who seal and restart.

use std::path::PathBuf;
use std::sync::Arc;

use crate::comm::Comm;
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::FileMeta;

/// The ranks that protect one another, as seen by one of them.
pub struct RedundancySet {
    /// The members, in set order; the right neighbour is `(rank + 1) % size`.
    pub comm: Arc<dyn Comm>,
    /// World rank of each member, in set order.
    pub world_ranks: Vec<usize>,
    /// Host of each member, in set order (a tag for scavenge).
    pub hosts: Vec<String>,
    /// Smallest world rank of the set (manual 1.1, section 7.3.2).
    pub group_id: usize,
    /// Ranks in the world.
    pub world_size: usize,
    /// Losses that RS is to survive, copies that PARTNER is to keep, as far as members go.
    pub failures: usize,
    /// Bytes that one communication step carries at most (manual 1.1, section 7.3.1 goal 4: a piece
    /// of each buffer stays in the processor's cache); the same on all members.
    pub piece_bytes: usize,
}

/// One rank's part of a dataset in cache.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberData {
    /// Directory of the dataset on this node; it exists.
    pub dir: PathBuf,
    /// Dataset id.
    pub id: u64,
    /// Epoch of the seal; parts with another epoch never combine.
    pub epoch: u64,
    /// The program's files of this rank in index order (the order of concatenation). Those that lie
    /// on the prefix are recorded, but neither read nor restored.
    pub files: Vec<FileMeta>,
    /// The rank's record (descriptor, series, ...), opaque here; the right neighbour keeps a copy.
    pub record: KvTree,
}

/// What a scheme left on this rank's node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Protection {
    /// Redundancy files of this rank, relative to the dataset directory. Empty if nothing protects
    /// the rank: SINGLE, or a set of one.
    pub files: Vec<FileMeta>,
    /// CRC32 of each of the rank's own files, in the order of [`MemberData::files`], as far as it
    /// is known: computed on the way when the scheme reads them, else as given.
    pub file_crcs: Vec<Option<u32>>,
}

/// How a rank enters a rebuild.
pub struct Survivor {
    /// Directory of the dataset on this node; it exists.
    pub dir: PathBuf,
    /// Dataset id.
    pub id: u64,
    /// Epoch that all parts must carry.
    pub epoch: u64,
    /// This rank's part, when all its files are there and right ([`super::verify()`]), or at least
    /// of the right size, if they were not compared; `None` if anything is missing.
    pub data: Option<MemberData>,
    /// Its redundancy files, when they are there too and right, or of the right size.
    pub protection: Option<Protection>,
    /// Whether the content of all of them was compared with the recorded checksums. If not, the
    /// scheme must do so ([`Scheme::compares_on_the_way`]).
    pub compared: bool,
}

/// A scheme. Calls are collective over the set.
pub trait Scheme: Send + Sync {
    /// Protects `data`, writes this rank's redundancy files below `<dir>/.scr/`: their content is
    /// durable, the names of those that lie in that folder itself with its next sync. A member that
    /// has no data says why, instead of being waited for.
    ///
    /// Each member gets its own outcome, and the set is protected only if all have `Ok`: those who
    /// seal agree on that anyway, together with what else can fail.
    fn encode(&self, set: &RedundancySet, data: Result<MemberData>) -> Result<Protection>;
    /// Whether a rebuild compares what it reads with the recorded checksums, and reads the rest.
    fn compares_on_the_way(&self) -> bool {
        false
    }
    /// Restores files, record and redundancy files of the members that lost theirs. Parts whose id
    /// or epoch is not the survivor's count as lost. All members get `Ok` or all get `Err`.
    /// `Err(Error::Unrecoverable)` on all members when the losses exceed the scheme. An error, with
    /// nothing changed, when a survivor that was not looked at before is not what its record says.
    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)>;
}

impl Survivor {
    pub(super) fn valid_data(&self) -> Option<&MemberData> {
        self.data.as_ref().filter(|data| data.id == self.id && data.epoch == self.epoch)
    }
}
