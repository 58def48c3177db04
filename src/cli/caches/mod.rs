//! The caches of a run, looked at and read from outside: `scr verify`, `ls`, `cat`, `cp`, `exec`.

pub mod cat;
pub mod cp;
pub mod exec;
pub mod ls;
pub mod on_node;
mod reach;
pub mod verify;
