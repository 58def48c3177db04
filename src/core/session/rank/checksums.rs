//! Checksums that were taken while the program wrote (`handles/checksums.rs`): what the hooks tell
//! of them, and what others may have written since.

use std::fs::Metadata;
use std::path::Path;

use super::runtime::{Session, State};

impl State {
    /// Notes that another rank or a child may write the file `name`, if it is one of ours.
    pub fn doubt(&mut self, name: &str) {
        let held = self.holdings.values().any(|holding| holding.files.contains(name));
        let open = self.tokens.doubt(name);
        if held || open {
            self.checksums.doubt(name);
        }
    }
}

impl Session {
    /// Notes that what was written through the token's descriptors, which is about to be closed,
    /// are all `bytes` of its file from start to end, with this CRC32. `fd` is open on it.
    pub fn written(&self, token: u64, fd: i32, bytes: u64, crc32: u32) {
        let Some(found) = look(fd) else { return };
        let mut state = self.state_to_look();
        let Some(one) = state.tokens.get_mut(token).filter(|one| !one.doubted) else { return };
        one.in_order = true;
        let name = one.name.clone();
        state.checksums.put(&name, &found, bytes, crc32);
    }

    /// Forgets the checksum of a file that is open now at `fd`, and may be changed.
    pub(in crate::session) fn forget_checksum(&self, fd: i32) {
        let known = !self.state_to_look().checksums.is_empty();
        if let Some(found) = Some(fd).filter(|_| known).and_then(look) {
            self.state_to_look().checksums.forget(&found);
        }
    }
}

fn look(fd: i32) -> Option<Metadata> {
    Path::new("/proc/self/fd").join(fd.to_string()).metadata().ok()
}
