//! What is on the prefix, and why; what is to come there, and what is not.

pub mod left_out;
pub mod places;
pub mod reasons;
