//! What other nodes are to be told of names.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub struct FarNews {
    /// Something here, or what waits for its real deletion.
    pub changed: bool,
    /// Names without content that are gone.
    pub laid: BTreeSet<String>,
    /// Files of which the PFS has the newest content, and some layer an older one.
    pub on_prefix: BTreeSet<String>,
}
