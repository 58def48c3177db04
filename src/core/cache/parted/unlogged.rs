//! Bytes of a node's file that no log tells of: somebody has written them unseen.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use scr_abi::accesses::Moment;

use crate::error::{Error, Result};
use crate::parts::{Extent, NodeLog, Owners};
use crate::system::next_data;

/// Tells whether there are some. What is zero may be a hole.
pub(super) fn has_unlogged(path: &Path, log: &NodeLog) -> Result<bool> {
    let failed = |error| Error::io("cannot read", path, error);
    let mut logged = Owners::default();
    log.writes.iter().for_each(|write| _ = logged.put(0, write.piece, Moment::default()));
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let (mut at, mut bytes) = (0, vec![0; 64 << 10]);
    while let Some(data) = next_data(&file, at, size).map_err(failed)? {
        at = data.end;
        for gap in logged.gaps(1, Extent::new(data.start, data.end)) {
            for begin in (gap.begin..gap.end).step_by(bytes.len()) {
                let some = (gap.end - begin).min(bytes.len() as u64) as usize;
                file.read_exact_at(&mut bytes[..some], begin).map_err(failed)?;
                if bytes[..some].iter().any(|byte| *byte != 0) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}
