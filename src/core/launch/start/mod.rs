//! What comes before the session, in the order of a start.

pub(crate) mod earlier;
pub(crate) mod ineffective;
pub(crate) mod join;
mod owner;
pub(crate) mod prepare;
pub(crate) mod together;
