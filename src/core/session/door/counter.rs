//! Where processes of a rank ask.

use std::sync::OnceLock;

use crate::system::close_inherited;

#[derive(Debug, Default)]
pub(crate) struct Counter(pub(super) OnceLock<ChildrenSocket>);

#[derive(Debug)]
pub(super) struct ChildrenSocket {
    pub(super) address: String,
    pub(super) fd: i32,
    /// What the descriptor leads to.
    pub(super) socket: Option<(u64, u64)>,
}

impl Counter {
    /// Closes what this process, a forked child, has inherited of it: only its parent answers here.
    pub fn leave_to_parent(&self) {
        if let Some(door) = self.0.get() {
            close_inherited(door.fd, door.socket);
        }
    }
}
