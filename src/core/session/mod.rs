//! The life of a job: datasets in progress, agreement, seals, restart.

pub mod machine;
