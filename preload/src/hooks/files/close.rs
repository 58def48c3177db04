//! Everything that ends or copies a descriptor.

use std::ffi::{c_int, c_uint};

use scr_abi::Engine;

use crate::engine;
use crate::fd::handle::{Outcome, handle};
use crate::fd::lazy::{wake_beyond, wake_descriptor};
use crate::fd::logged::parted;
use crate::fd::open_files::Released;
use crate::fd::release::{fresh, report, take_back};
use crate::hooks::family::{interpose, made};
use crate::hooks::files::unseen_mappings;
use crate::signal::guard;
use crate::{fd::failing_store, fd::in_order, fd::open_files, fd::reuse, fd::stream_writes};

type Close = unsafe extern "C-unwind" fn(c_int) -> c_int;
type CloseFrom = unsafe extern "C-unwind" fn(c_int);
type CloseRange = unsafe extern "C-unwind" fn(c_uint, c_uint, c_int) -> c_int;
type Fcntl = unsafe extern "C-unwind" fn(c_int, c_int, ...) -> c_int;

interpose! {
    cancellable [close, __close](fd: c_int) -> c_int = Close => close;
    plain [close_range](first: c_uint, last: c_uint, flags: c_int) -> c_int
        = CloseRange => close_range;
    plain [closefrom](low: c_int) -> () = CloseFrom => closefrom;
    cancellable [fcntl, fcntl64, __fcntl](fd: c_int, command: c_int, argument: usize) -> c_int
        = Fcntl => fcntl;
}

made! {
    plain [dup](fd: c_int) -> c_int = |real| copied(fd, || real(fd));
    plain [dup2, __dup2](from: c_int, to: c_int) -> c_int
        = |real| copied_onto(from, to, || real(from, to));
    plain [dup3](from: c_int, to: c_int, flags: c_int) -> c_int
        = |real| copied_onto(from, to, || real(from, to, flags));
}

pub(super) fn loses_data(code: c_int) -> bool {
    matches!(code, libc::EIO | libc::ENOSPC | libc::EDQUOT)
}

unsafe fn close(real: Close, fd: c_int) -> c_int {
    let done = close_tracked(fd, || {
        // SAFETY: closes what the program asked to close.
        match unsafe { real(fd) } {
            0 => Ok(0),
            _ => Err(guard::errno()),
        }
    });
    // SAFETY: as above.
    done.unwrap_or_else(|| unsafe { real(fd) })
}

/// Returns what the program is told; what its store could not make durable goes to the PFS. Guard
/// held.
pub(super) fn ended(
    table: &Engine,
    released: Released,
    result: Result<c_int, c_int>,
) -> Result<c_int, c_int> {
    let token = released.claim.token;
    let Err(code) = result else {
        report(table, [released]);
        return result;
    };
    let kept = released.claim.writable && failing_store::put_off(table, token, code);
    if !kept && loses_data(code) {
        (table.failed)(token, code);
    }
    if report(table, [released]) && kept { Ok(0) } else { result }
}

/// Looks at an `fd` that is about to be closed. Guard held.
pub(super) fn tell_whole(table: &Engine, fd: c_int) {
    let Some(whole) = in_order::finish(fd) else { return };
    if let Some(claim) = open_files::claim(fd)
        && unseen_mappings::cannot_change(unseen_mappings::flags_of(fd))
    {
        (table.written)(claim.token, fd, whole.bytes, whole.crc32);
    }
}

/// Returns `None` if `fd` is not tracked: nothing was done. The claim is given up first: once the
/// real call has returned, the number can belong to another thread's new file.
pub(super) fn close_tracked(
    fd: c_int,
    call: impl FnOnce() -> Result<c_int, c_int>,
) -> Option<c_int> {
    if !open_files::may_hold(fd) {
        return None;
    }
    let active = engine::active()?;
    handle(-1, active, || {
        unseen_mappings::claim_before_close(&active.table, fd);
        tell_whole(&active.table, fd);
        let Some(released) = open_files::detach(fd) else { return Outcome::Pass };
        let result = ended(&active.table, released, call());
        result.map_or_else(Outcome::Fail, Outcome::Done)
    })
}

unsafe fn close_range(real: CloseRange, first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let only_marks = flags & libc::CLOSE_RANGE_CLOEXEC.cast_signed() != 0;
    let done = match engine::active() {
        Some(active) if !only_marks => handle(-1, active, || {
            let low = c_int::try_from(first).unwrap_or(c_int::MAX);
            let high = c_int::try_from(last).unwrap_or(c_int::MAX);
            let mut outcome = Outcome::Pass;
            let gone = open_files::close_range(low, high, || {
                // SAFETY: the program's own call; nothing is given up before it has succeeded.
                let result = unsafe { real(first, last, flags) };
                outcome = Outcome::of(result);
                result == 0
            });
            report(&active.table, gone);
            outcome
        }),
        _ => None,
    };
    // SAFETY: the program's own call.
    done.unwrap_or_else(|| unsafe { real(first, last, flags) })
}

unsafe fn closefrom(real: CloseFrom, low: c_int) {
    let done = engine::active().and_then(|active| {
        handle((), active, || {
            let gone = open_files::close_range(low.max(0), c_int::MAX, || {
                // SAFETY: the program's own call.
                unsafe { real(low) };
                true
            });
            report(&active.table, gone);
            Outcome::Done(())
        })
    });
    // SAFETY: the program's own call.
    done.unwrap_or_else(|| unsafe { real(low) });
}

unsafe fn fcntl(real: Fcntl, fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the argument is passed on in the width of a register, as it came.
    let call = || unsafe { real(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copied(fd, call),
        libc::F_GETFD | libc::F_SETFD | libc::F_GETFL => call(),
        // Where the file ends, other nodes know as well.
        libc::F_SETFL if argument as c_int & libc::O_APPEND != 0 && !parted::leave(fd) => -1,
        _ => {
            reuse::settle_of(fd); // locks, leases, another way of writing
            call()
        }
    }
}

fn copied(from: c_int, call: impl Fn() -> c_int) -> c_int {
    if !open_files::may_hold(from) {
        return fresh(call());
    }
    let done = engine::active().and_then(|active| {
        handle(-1, active, || {
            let (to, before) = match open_files::copy(from, || checked(call())) {
                Ok(made) => made,
                Err(code) => return Outcome::Fail(code),
            };
            report(&active.table, before);
            stream_writes::watch_standard(to);
            if wake_beyond(&active.table, to) && parted::leave_beyond(&active.table, to) {
                return Outcome::Done(to);
            }
            // SAFETY: closes what the program has not been told of.
            take_back(&active.table, to, || unsafe { libc::close(to) });
            Outcome::Fail(libc::ENOSPC)
        })
    });
    done.unwrap_or_else(call)
}

/// The call closes whatever `to` was.
fn copied_onto(from: c_int, to: c_int, call: impl Fn() -> c_int) -> c_int {
    if from == to || !(open_files::may_hold(from) || open_files::may_hold(to)) {
        return call();
    }
    let done = engine::active().and_then(|active| {
        handle(-1, active, || {
            // Before the call, which nothing could undo.
            let table = &active.table;
            let wake = || wake_descriptor(table, from) && parted::leave_held(table, from);
            if !open_files::may_be_lazy(to) && !wake() {
                return Outcome::Fail(libc::ENOSPC);
            }
            match open_files::copy(from, || checked(call())) {
                Ok((to, before)) => {
                    report(&active.table, before);
                    stream_writes::watch_standard(to);
                    Outcome::Done(to)
                }
                Err(code) => Outcome::Fail(code),
            }
        })
    });
    done.unwrap_or_else(call)
}

/// It must follow the real call at once.
fn checked(result: c_int) -> Result<c_int, c_int> {
    if result < 0 { Err(guard::errno()) } else { Ok(result) }
}
