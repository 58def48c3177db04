//! What the program sees below the prefix: the PFS, plus what the cached datasets hold, minus what
//! the program deleted (DESIGN section 5).
//!
//! [`view`] holds the state and answers where a name is; [`listing`] merges directories;
//! [`evicted`] has names without content; [`names`] takes paths apart; [`notices`] and [`hearing`]
//! are what ranks tell one another.

mod answer;
mod doomed;
mod evicted;
mod hearing;
mod hidden_dir;
mod intent;
mod layer;
mod listing;
mod names;
mod notices;
mod target;
mod view;

pub use answer::{Answer, Attributes, Entry};
pub use doomed::Doomed;
pub use hidden_dir::HiddenDir;
pub use intent::{Intent, Manner};
pub use layer::{Layer, Remote};
pub use listing::entries;
pub use names::{FALLBACK_DIR, SHADOWS, STATE_FOLDER, is_ours, parent, relative, stable_number};
pub use notices::{Claim, Move, Notice, Writing};
pub use target::{
    Found, OnPrefix, copy_up, make_empty, make_parents, may_create, move_to, move_to_unless,
    on_prefix, remove,
};
pub use view::{Place, View};
