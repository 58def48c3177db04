//! PARTNER: each member's files, whole, on its right neighbour too (001, 002).
//!
//! ```text
//! <dataset>/.scr/partner.<world rank of the left neighbour>/<its files>
//! <dataset>/.scr/partner.<world rank of the left neighbour>.scr    the manifest, written last:
//!     CKPT <id>  DSET <id>  EPOCH <hex>  RANKS <ranks in the world>  PARTNER <its list>
//! ```
//! Any members may be lost as long as no two of them are neighbours. A lost one gets its files back
//! from the right, then whoever lacks the copies of its left neighbour gets them anew.

mod copies;
mod rebuild;
mod stream;

use super::ring::Ring;
use super::{MemberData, Protection, RedundancySet, Scheme, Single, Survivor};
use crate::error::Result;

/// The scheme.
pub struct Partner;

impl Scheme for Partner {
    fn name(&self) -> &'static str {
        "PARTNER"
    }

    fn tolerated_losses(&self) -> usize {
        1
    }

    fn encode(&self, set: &RedundancySet, data: &MemberData) -> Result<Protection> {
        if set.comm.size() == 1 {
            return Single.encode(set, data);
        }
        let everyone = vec![true; set.comm.size()];
        let copied = copies::copy_right(&Ring::new(set), data, &everyone)?;
        Ok(Protection { files: copied.files.unwrap_or_default(), file_crcs: copied.file_crcs })
    }

    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
        match set.comm.size() {
            1 => Single.rebuild(set, own),
            _ => rebuild::rebuild(set, own),
        }
    }
}
