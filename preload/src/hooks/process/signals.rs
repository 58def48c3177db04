//! Calls that set a handler for a signal. In a rank it is one that can be made to wait, and the
//! program does not see that.

use std::ffi::{c_int, c_void};

use libc::sigaction as Action;

use crate::hooks::family::interpose;
use crate::{engine, signal::handlers};

type Set = unsafe extern "C-unwind" fn(c_int, *const Action, *mut Action) -> c_int;
type Simple = unsafe extern "C-unwind" fn(c_int, *mut c_void) -> *mut c_void;

interpose! {
    plain [sigaction, __sigaction](number: c_int, new: *const Action, old: *mut Action) -> c_int
        = Set => set;
    plain [signal, bsd_signal, ssignal, sysv_signal, __sysv_signal, sigset](
        number: c_int, handler: *mut c_void
    ) -> *mut c_void = Simple => set_simply;
}

fn in_rank() -> bool {
    engine::active().is_some_and(|active| active.own)
}

unsafe fn set(real: Set, number: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the program's own call.
    let result = unsafe { real(number, new, old) };
    if result == 0 && in_rank() {
        // SAFETY: null, or what the call has filled in.
        if let Some(old) = unsafe { old.as_mut() } {
            old.sa_flags = handlers::told_flags(number, old);
            old.sa_sigaction = handlers::told(number, old.sa_sigaction);
        }
        if !new.is_null() {
            handlers::adopt(number);
        }
    }
    result
}

unsafe fn set_simply(real: Simple, number: c_int, handler: *mut c_void) -> *mut c_void {
    // SAFETY: the program's own call.
    let old = unsafe { real(number, handler) };
    if !in_rank() {
        return old;
    }
    let old = handlers::told(number, old as usize) as *mut c_void;
    handlers::adopt(number);
    old
}
