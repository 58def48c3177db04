//! What the program sees below the prefix: the PFS, plus what the cached datasets hold, minus what
//! the program deleted (DESIGN section 5).
//!
//! [`view`] holds the state and answers where a name is; [`listing`] merges directories;
//! [`names`] takes paths apart.

mod intent;
mod listing;
mod names;
mod target;
mod view;

pub use intent::Intent;
pub use listing::entries;
pub use names::{REFUGE, STATE_FOLDER, is_ours, parent, relative, stable_number};
pub use target::{
    OnPrefix, copy_up, make_empty, make_parents, may_create, move_to, move_to_unless, on_prefix,
    remove,
};
pub use view::{HiddenDir, Layer, Place, Remote, View};
