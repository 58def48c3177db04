//! What is recorded of runs: the last one, its nodes, its end, what it was asked for.

pub(super) mod halt_file;
pub(crate) mod learned;
pub(super) mod nodes;
pub(super) mod refusal;
pub(super) mod run_record;
pub(super) mod transfer_file;
