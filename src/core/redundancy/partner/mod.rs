//! PARTNER: each member's files, whole, on its right neighbour too (the later manuals); with
//! SET_FAILURES more than 1 on so many right neighbours.
//!
//! ```text
//! <dataset>/.scr/partner.<world rank of a left neighbour>/<its files>
//! <dataset>/.scr/partner.<world rank of a left neighbour>.scr    the manifest, written last:
//!     CKPT <id>  DSET <id>  EPOCH <hex>  RANKS <ranks in the world>  PARTNER <its list>
//!     OWN / <files of which the keeper has parts>
//! ```
//! A member's files are lost only if all its keepers on the right are lost with it. It gets them
//! back from the nearest one that is left, then whoever lacks copies gets them anew.

mod copies;
mod rebuild;
mod stream;

pub(crate) use copies::Manifest;

use super::ring::Ring;
use super::single::Single;
use super::{MemberData, Protection, RedundancySet, Scheme, Survivor};
use crate::error::Result;

pub(super) struct Partner;

impl Scheme for Partner {
    fn encode(&self, set: &RedundancySet, data: Result<MemberData>) -> Result<Protection> {
        if set.comm.size() == 1 {
            return Single.encode(set, data);
        }
        let ring = Ring::new(set);
        let everyone = vec![true; ring.size];
        let (mut data, mut protection) = (data, Protection::default());
        for distance in 1..=copies::copies_kept(set) {
            // Whoever has failed says so before the next copies, instead of being waited for.
            data = copies::copy_right(&ring, distance, data, &everyone).map(|(data, copied)| {
                protection.files.extend(copied.files.unwrap_or_default());
                protection.file_crcs = copied.file_crcs;
                data
            });
        }
        data.map(|_| protection)
    }

    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
        match set.comm.size() {
            1 => Single.rebuild(set, own),
            _ => rebuild::rebuild(set, own),
        }
    }
}
