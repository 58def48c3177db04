//! The ends of a process that run no handlers. (Nor does a signal that kills, or exit_group(2)
//! called directly: those are the death of the rank.)

use std::ffi::c_int;

use crate::base::real::Symbol;
use crate::life::ending;

type Exit = unsafe extern "C" fn(c_int) -> !;

static REAL: Symbol = Symbol::new(c"_exit");

#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    end(status)
}

#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    end(status)
}

fn end(status: c_int) -> ! {
    ending::at_once();
    if let Some(real) = REAL.next() {
        // SAFETY: the address of `_exit`, whose type this is.
        unsafe { std::mem::transmute::<usize, Exit>(real.get())(status) }
    }
    loop {
        // SAFETY: it ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
