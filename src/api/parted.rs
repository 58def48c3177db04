//! What the engine tells of files that ranks of several nodes write into the cache, of which each
//! node has a part.

use std::ffi::{c_char, c_int};

use scr_abi::hint;
use scr_core::machine::Hints;

use super::shim::{path_of, with_session};

/// Serves as [`scr_abi::Engine::has`].
pub(super) extern "C" fn has(token: u64, start: u64, end: u64) -> c_int {
    with_session(true, |session| session.handles.has(token, start, end)).into()
}

/// Serves as [`scr_abi::Engine::file_size`].
pub(super) extern "C" fn file_size(token: u64) -> u64 {
    with_session(None, |session| session.handles.whole_size(token)).unwrap_or(u64::MAX)
}

/// Serves as [`scr_abi::Engine::hints`].
pub(super) extern "C" fn hints(_comm: usize, path: *const c_char) -> c_int {
    // SAFETY: the shim passes a string that lives during the call.
    let path = unsafe { path_of(path) };
    let none = (Hints::None, 0, false);
    let (hints, nodes, reads) = with_session(none, |session| session.names.hints(path));
    let reads = if reads { hint::READS } else { 0 };
    match hints {
        Hints::None => 0,
        Hints::Apart => hint::ALONE | reads,
        Hints::Gathered => hint::BY_NODE | reads | c_int::try_from(nodes).unwrap_or(0) << 8,
    }
}
