//! What a node has: its directories and stores, the records of its ranks, and who shares them.
//!
//! | file | job |
//! |---|---|
//! | `address.rs` | where a prefix has its directories; how many launches share a node |
//! | `layout.rs` | directories and their names |
//! | `store.rs` | this rank's filemap in the control directory, crash-safe |
//! | `owner.rs` | which prefix a cache was made for |
//! | `scatter.rs` | records to the ranks that run here now |
//! | `untouched.rs` | which files a start need not read |
//! | `names.rs` | names of what lies in the directories of a node |
//! | `context.rs` | what the operations need to know of a rank |
//! | `origin.rs` | for which prefix the cache of a node was made |
//! | `sharing.rs` | stores that several nodes reach |

pub(super) mod address;
pub(crate) mod agree;
pub(super) mod context;
pub(crate) mod disk;
pub(crate) mod layout;
pub(crate) mod names;
pub(super) mod origin;
pub(super) mod owner;
pub(super) mod scatter;
pub(super) mod sharing;
pub(super) mod store;
pub(super) mod untouched;
