//! The way out for a file that ranks of several nodes write together, and that cannot stay in the
//! cache: all ranks bring it to the prefix, in mid-run and without MPI. `board.rs`: how they tell
//! each other something; `told.rs`: what; `pull.rs`: who does what; `turn.rs`: which file;
//! `rank_pulls.rs`: what a rank has to do with it.

mod board;
pub(super) mod pull;
pub(super) mod rank_pulls;
pub(super) mod told;
mod turn;
