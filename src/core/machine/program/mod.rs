//! What a program that calls SCR may do, and when.

pub mod calls;
pub mod idle;
pub mod need;
