//! What a program that calls SCR may do, and when.

mod calls;
mod idle;
mod need;

pub use calls::{Call, ProgramState};
pub use idle::Idle;
pub use need::{Need, NeedLimits};
