//! What the program sees below the prefix: the PFS, plus what the cached datasets hold, minus what
//! the program deleted (docs/internals/names.md).
//!
//! | file | job |
//! |---|---|
//! | `view.rs`, `layer.rs` | where a name is; what is known of the names of one dataset |
//! | `listing.rs` | directories, merged |
//! | `evicted.rs` | names without content |
//! | `names.rs`, `intent.rs`, `answer.rs` | paths; what an open means; answers |
//! | `rules.rs` | what calls that change names say before anything is done |
//! | `target.rs` | files that names lead to; what is deleted and still there |
//! | `neighbours.rs`, `notices.rs`, `hearing.rs` | what a node's ranks tell one another |
//! | `turns.rs` | one step of theirs at a time |
//! | `far_message.rs` | what ranks of other nodes are told |
//! | `directories.rs` | directories that get their final name later |
//! | `silenced.rs` | files that are left alone, since they are never quiet |
//! | `hidden_dir.rs` | a directory that is not shown |

mod answer;
mod directories;
mod evicted;
mod far_message;
mod hearing;
mod hidden_dir;
mod intent;
mod layer;
mod listing;
mod names;
mod neighbours;
mod notices;
mod rules;
mod silenced;
mod target;
mod turns;
mod view;

pub use answer::{Answer, Attributes, Entry};
pub use directories::{Directories, LOOKED_AT_MAX, MARK, Waiting, carries_id, first_below};
pub use far_message::{Files, Message, ToldElsewhere};
pub use hidden_dir::HiddenDir;
pub use intent::{Intent, Manner};
pub use layer::{Layer, Remote};
pub use listing::entries;
pub use names::{
    FALLBACK_DIR, FILENAME_MAX, SHADOWS, STATE_FOLDER, dataset_name, is_ours, name_below_prefix,
    own_dirs, parent, relative,
};
pub use neighbours::{Claimed, Neighbours, News};
pub use notices::{Claim, Move, Notice, Writing};
pub use rules::{OldAndNew, dir_rename_rules, link_rules, rename_rules, rmdir_rules, unlink_rules};
pub use silenced::{Silenced, pattern_of};
pub use target::{
    Doomed, Found, OnPrefix, copy_into, copy_up, make_empty, make_parents, make_parents_like,
    may_create, move_and_keep, move_to, move_to_unless, on_prefix, remove,
};
pub use turns::{Turns, is_within};
pub use view::{Place, View};
