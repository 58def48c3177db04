//! What another job has left: its cache (`other_size.rs`), what a person has copied (`gather.rs`),
//! older prefixes (`older.rs`).

pub(super) mod gather;
pub(super) mod older;
pub(super) mod other_size;
pub(super) mod parts;
