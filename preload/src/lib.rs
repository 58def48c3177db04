//! The preload shim of SCR, which is loaded into every process of a job. In a launcher it sees to
//! it that the ranks get it too (`launcher`); in a rank, which calls MPI_Init, it opens the engine
//! (`engine`), and the hooks (`hooks`) ask that about every path below the prefix, by [`scr_abi`];
//! in processes that a rank has started they ask the rank (`child`). State must be usable before
//! the constructor has run: other libraries' constructors reach hooks.
// Newer compilers want `open`, `write` and `close` declared as the standard library calls them.
// Ours are "C-unwind", since pthread_cancel unwinds through them, and `open` has its third
// argument fixed: on every target that we serve, both are called alike.
#![allow(unknown_lints, invalid_runtime_symbol_definitions)]
#![cfg_attr(test, allow(clippy::unwrap_used))] // a test that cannot go on stops

mod base;
#[cfg_attr(test, allow(dead_code))]
mod child;
mod engine;
mod fd;
#[cfg(not(test))]
mod hooks;
#[cfg_attr(test, allow(dead_code))]
mod launcher;
#[cfg_attr(test, allow(dead_code))]
mod life;
mod path;
mod signal;

/// Settles what a launcher has to do before its main, and whether a rank has started this process.
/// Nothing else depends on this having run.
#[cfg(not(test))]
#[ctor::ctor(unsafe)]
fn constructor() {
    // A panic must not cross into the loader.
    let _: Option<()> = signal::guard::work(|| {
        launcher::prepare();
        if child::follow() {
            life::start::follow();
        }
    });
}
