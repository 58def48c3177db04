//! The collective start; what comes before it is `launch/`.

mod helper;
mod start;
