//! Why checkpoints are not protected: settings, places (nothing stays where it was tried to write),
//! and the last run. Each finding has the line to type.

mod finding;
mod past;
mod places;
mod settings;

pub use finding::{Finding, Level};
pub use past::look_at_past;
pub use places::{look_at_prefix, look_at_stores};
pub use settings::{LookedSettings, look_at_settings};
