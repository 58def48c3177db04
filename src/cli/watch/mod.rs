//! How a run is doing, and when it is to halt.

pub mod halt;
pub mod status;
pub mod top;
