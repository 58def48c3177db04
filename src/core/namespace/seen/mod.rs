//! What one rank sees.
//!
//! | file | job |
//! |---|---|
//! | `view.rs`, `layer.rs` | where a name is; what is known of the names of one dataset |
//! | `place.rs`, `answer.rs` | a place; answers to the program's questions |
//! | `rules.rs` | what calls that change names say before anything is done |
//! | `target.rs` | files that names lead to; what is deleted and still there |
//! | `writing.rs` | a write that begins |
//! | `hearing.rs` | what other ranks tell changes the view |
//! | `listing.rs` | directories, merged |
//! | `evicted.rs` | names without content |
//! | `removed_dirs.rs`, `hidden_dir.rs` | directories that are removed, or not shown |

pub(super) mod answer;
pub(super) mod evicted;
pub(super) mod hearing;
pub(super) mod hidden_dir;
pub(super) mod layer;
pub(super) mod listing;
pub(super) mod place;
pub(super) mod removed_dirs;
pub(super) mod rules;
pub(super) mod target;
pub(super) mod view;
pub(super) mod writing;
