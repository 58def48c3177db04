//! SINGLE: no redundancy. It survives killed processes, not a lost node.

use super::ring::Ring;
use super::{MemberData, Protection, RedundancySet, Scheme, Survivor};
use crate::error::{Error, Result};

/// Also what the other schemes come down to in a set of one.
pub(super) struct Single;

impl Scheme for Single {
    fn encode(&self, _set: &RedundancySet, data: Result<MemberData>) -> Result<Protection> {
        data.map(|data| unprotected(&data))
    }

    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
        let ring = Ring::new(set);
        ring.agree(match own.valid_data() {
            Some(data) => Ok((data.clone(), unprotected(data))),
            None => Err(Error::Unrecoverable(format!(
                "rank {} has lost its files of dataset {}, and nothing protects them",
                ring.world_rank(ring.me),
                own.id
            ))),
        })
    }
}

fn unprotected(data: &MemberData) -> Protection {
    Protection { files: Vec::new(), file_crcs: data.files.iter().map(|f| f.crc32).collect() }
}
