//! The `scr` command.

fn main() {}
