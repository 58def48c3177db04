//! Why checkpoints are not protected: what is wrong with the settings, with the places that they
//! name, and with the last run. Each finding has the line to type.
//!
//! | file | looks at |
//! |---|---|
//! | `settings.rs` | config file, environment, patterns, descriptors |
//! | `places.rs` | the prefix, and this node's control and cache directories |
//! | `past.rs` | what the last run has recorded |
//!
//! Nothing is changed, and nothing stays where it was tried to write.

mod finding;
mod past;
mod places;
mod settings;

pub use finding::{Finding, Level};
pub use past::look_at_past;
pub use places::{look_at_prefix, look_at_stores};
pub use settings::{LookedSettings, look_at_settings};
