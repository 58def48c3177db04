//! What to restart from, and datasets that are chosen or dropped by their name.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use scr_core::error::Result;
use scr_core::session::Call;

use super::door::together;
use super::life::without_session;
use super::shared::{Buffer, Flag, is_null, text_of};

/// Tells in `flag` whether there is a checkpoint to read, and in `name` what it is called. Safety:
/// `flag` is null or valid for a write; `name` is null or has SCR_MAX_FILENAME bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Have_restart(flag: *mut c_int, name: *mut c_char) -> c_int {
    // SAFETY: the same contract.
    unsafe { have_restart(flag, Buffer::new(name)) }
}

/// Does what [`SCR_Have_restart`] does, with the same contract.
pub(super) unsafe fn have_restart(flag: *mut c_int, name: Buffer) -> c_int {
    together(
        Call::HaveRestart,
        // SAFETY: by this function's contract.
        || Ok((unsafe { Flag::new(flag) }?, Vec::new())),
        |flag, session| {
            flag.set(false);
            let found = session.map_or(Ok(None), |session| session.program.have_restart())?;
            if let Some(found) = found {
                name.fill(found.as_bytes())?;
                flag.set(true);
            }
            Ok(())
        },
    )
}

/// Begins to read the checkpoint that [`SCR_Have_restart`] has offered, and tells its name in
/// `name`. Safety: `name` is null or has SCR_MAX_FILENAME bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Start_restart(name: *mut c_char) -> c_int {
    // SAFETY: by this function's contract.
    start_restart(unsafe { Buffer::new(name) })
}

pub(super) fn start_restart(name: Buffer) -> c_int {
    together(
        Call::StartRestart,
        || Ok(((), Vec::new())),
        |(), session| {
            let Some(session) = session else {
                return Err(without_session("there is nothing to restart from"));
            };
            name.fill(session.program.start_restart()?.as_bytes())
        },
    )
}

/// Ends the reading of a checkpoint; `valid` is 0 where this rank could not read all that it needs.
#[unsafe(no_mangle)]
pub extern "C" fn SCR_Complete_restart(valid: c_int) -> c_int {
    together(
        Call::CompleteRestart,
        || Ok((valid != 0, Vec::new())),
        |valid, session| session.map_or(Ok(()), |session| session.program.complete_restart(valid)),
    )
}

/// Chooses the checkpoint `name` as the one that the program goes on from. Safety: `name` is null
/// or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Current(name: *const c_char) -> c_int {
    // SAFETY: by this function's contract.
    by_name(Call::Current, unsafe { text_of(name, "the name") })
}

/// Takes the dataset `name` out of the index and the cache; its files on the prefix stay. Safety:
/// `name` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Drop(name: *const c_char) -> c_int {
    // SAFETY: by this function's contract.
    by_name(Call::Drop, unsafe { text_of(name, "the name") })
}

/// Deletes the dataset `name`, its files on the prefix too. Safety: `name` is null or
/// NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Delete(name: *const c_char) -> c_int {
    // SAFETY: by this function's contract.
    by_name(Call::Delete, unsafe { text_of(name, "the name") })
}

pub(super) fn by_name(call: Call, name: Result<Option<&str>>) -> c_int {
    together(
        call,
        || {
            let name = name?.ok_or_else(|| is_null("the name"))?;
            Ok((name, name.as_bytes().to_vec()))
        },
        |name, session| {
            let Some(session) = session else {
                return Err(without_session("its index is not used"));
            };
            match call {
                Call::Current => session.program.choose_current(name),
                Call::Delete => session.program.drop_named(name, true),
                _ => session.program.drop_named(name, false),
            }
        },
    )
}
