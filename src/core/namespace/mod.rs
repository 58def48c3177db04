//! What the program sees below the prefix: the PFS, plus what the cached datasets hold, minus what
//! the program deleted (docs/internals/names.md).
//!
//! | room or file | job |
//! |---|---|
//! | `seen` | what one rank sees |
//! | `told` | what ranks tell one another |
//! | `names.rs`, `intent.rs` | paths; what an open means |
//! | `directories.rs` | directories that get their final name later |
//! | `silenced.rs` | files that are left alone, since they are never quiet |

mod directories;
mod intent;
mod names;
mod seen;
mod silenced;
mod told;

pub use directories::{Directories, LOOKED_AT_MAX, RenamedKind, first_below, series_below};
pub use intent::{Makes, Manner, OpenIntent};
pub use names::{
    FALLBACK_DIR, FILENAME_MAX, SHADOWS, STATE_FOLDER, dataset_name, is_ours, name_below_prefix,
    own_dirs, parent, relative,
};
pub use seen::answer::{Answer, Entry};
pub use seen::hidden_dir::HiddenDir;
pub use seen::layer::{Layer, Remote};
pub use seen::listing::entries;
pub use seen::place::{Place, Sought};
pub use seen::rules::{
    OldAndNew, dir_rename_rules, link_rules, rename_rules, rmdir_rules, unlink_rules,
};
pub use seen::target::{
    Doomed, FoundTarget, OnPrefix, copy_into, copy_over, copy_up, look_at, make_empty,
    make_parents, make_parents_like, make_part, may_create, move_and_keep, move_to_unless,
    on_prefix, remove,
};
pub use seen::view::View;
pub use seen::writing::WriteStart;
pub use silenced::{SilencedFiles, pattern_of};
pub use told::far_message::{FarFiles, FarMessage, ToldElsewhere};
pub use told::joined::JoinedNames;
pub use told::move_notes::MoveNotes;
pub use told::neighbours::{Claimed, Neighbours, NodeNews};
pub use told::notices::{Move, Notice, WriteClaim};
pub use told::outdated::Outdated;
pub use told::turns::{Turns, is_within};
