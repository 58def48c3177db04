//! What the hooks tell of checksums that were taken while the program wrote.

use std::fs::Metadata;
use std::path::Path;

use crate::handles::LiesAt;
use crate::session::{handles::Handles, node::RankFiles};
use crate::system::monotonic_ms;

impl Handles {
    /// Takes the checksum of all `bytes` of the token's file, which were written in order.
    /// `fd` is open on it and about to be closed.
    pub fn written(&self, token: u64, fd: i32, bytes: u64, crc32: u32) {
        let Some(found) = look(fd) else { return };
        let mut state = self.node.state_to_look();
        let RankFiles { tokens, parted, .. } = &mut state.own;
        let Some(one) = tokens.get_mut(token).filter(|one| !one.doubted) else { return };
        if parted.get(&one.key, &one.name).is_some() {
            return; // others write to the file, too
        }
        one.in_order = true;
        let name = one.name.clone();
        state.own.checksums.put(&name, &found, bytes, crc32);
    }

    /// Forgets the checksum of a file that may be changed.
    pub(crate) fn forget_checksum(&self, fd: i32) {
        let known = !self.node.state_to_look().own.checksums.is_empty();
        if let Some(found) = Some(fd).filter(|_| known).and_then(look) {
            self.node.state_to_look().own.checksums.forget(&found);
        }
    }

    /// Notes that a write, truncate, fsync or close has failed.
    pub fn failed(&self, token: u64, errno: i32) {
        let mut state = self.node.state_to_look();
        let Some(tracked) = state.own.tokens.get(token).cloned() else { return };
        let reads = tracked.way.only_reads() || tracked.way == LiesAt::Temporary;
        if reads || tracked.is_orphan() {
            // It belongs to nothing yet; the program will not rename what it could not write.
            return;
        }
        let reason = std::io::Error::from_raw_os_error(errno);
        let text = format!("writing {} failed: {reason}", tracked.name);
        state.machine.failed(&tracked.key, &text, monotonic_ms());
    }
}

fn look(fd: i32) -> Option<Metadata> {
    Path::new("/proc/self/fd").join(fd.to_string()).metadata().ok()
}
