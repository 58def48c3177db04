//! chdir: relative names mean something else from here on.

use std::ffi::{c_char, c_int};

use crate::engine::ask::Answer;
use crate::fd::handle::Outcome;
use crate::hooks::below::below_prefix;
use crate::hooks::family::{interpose, made};
use crate::path::question::Question;
use crate::{engine, path::memory, signal::guard};

type Chdir = unsafe extern "C-unwind" fn(*const c_char) -> c_int;

interpose! {
    plain [chdir](path: *const c_char) -> c_int = Chdir => chdir;
}

made! {
    plain [fchdir](fd: c_int) -> c_int = |real| moved(real(fd));
}

unsafe fn chdir(real: Chdir, path: *const c_char) -> c_int {
    // SAFETY: the program's own call.
    let result = moved(unsafe { real(path) });
    if result == 0 || guard::errno() != libc::ENOENT {
        return result;
    }
    let job = |mut question: Question| match question.lookup(true) {
        Answer::Redirect(_) | Answer::Stat(_) => Outcome::Fail(libc::ENOTDIR),
        _ => Outcome::Pass,
    };
    // SAFETY: `path` is null or a C string of the program.
    unsafe { below_prefix(-1, libc::AT_FDCWD, path, job) }.unwrap_or(result)
}

fn moved(result: c_int) -> c_int {
    // A vfork child has its own working directory but our memory: forgetting does no harm there.
    if result == 0 && engine::active().is_some() {
        memory::forget_relative();
    }
    result
}
