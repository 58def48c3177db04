//! Whether all ranks of the launch are there, and where ranks meet without MPI.

pub(crate) mod census;
pub(crate) mod check;
pub(crate) mod check_files;
pub(crate) mod herald;
pub(crate) mod meeting;
pub(crate) mod nonce;
pub(crate) mod verdict;
