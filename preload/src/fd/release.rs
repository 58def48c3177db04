//! Descriptors that are no more: the engine hears of those that were the last of their tokens.

use std::ffi::c_int;

use scr_abi::Engine;

use crate::engine;
use crate::fd::handle::{Outcome, handle};
use crate::fd::open_files::{self, Released};
use crate::fd::reuse;

/// Tells the engine of tokens that were held for the last time. False: data are lost. Guard held.
pub(crate) fn report(table: &Engine, released: impl IntoIterator<Item = Released>) -> bool {
    let lost = |gone: &Released| {
        reuse::tell_failure(table, gone.claim.token);
        gone.last && (table.closed)(gone.claim.token) != 0
    };
    released.into_iter().filter(lost).count() == 0
}

/// Closes an `fd` that the program is not to get: what it would write could not be kept from a
/// sealed copy.
pub(crate) fn take_back<T>(table: &Engine, fd: c_int, call: impl FnOnce() -> T) {
    let released = open_files::detach(fd);
    call();
    report(table, released);
}

/// Takes a number that is not ours out of the table: a way that no hook sees (a raw system call, or
/// inside of libc) has closed the old one.
pub(crate) fn fresh(fd: c_int) -> c_int {
    if fd >= 0
        && open_files::may_hold(fd)
        && let Some(active) = engine::active()
    {
        let _: Option<c_int> = handle(-1, active, || {
            report(&active.table, open_files::detach(fd));
            Outcome::Pass
        });
    }
    fd
}
