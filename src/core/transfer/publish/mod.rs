//! How files get to the prefix: staged (`stage.rs`, `single.rs`), noted in a journal
//! (`journal.rs`), published, and which ones do not (`newer.rs`, `unfinished.rs`).

pub mod about;
pub(super) mod companions;
pub(super) mod journal;
pub(super) mod kept;
pub(super) mod newer;
pub(super) mod options;
pub(super) mod parts;
pub(super) mod single;
pub(super) mod stage;
pub(super) mod staged;
pub(super) mod underway;
pub(super) mod unfinished;
