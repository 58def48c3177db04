//! From SCR_Init to SCR_Finalize, and what can be asked in between.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use scr_core::error::Error;
use scr_core::log::messages;
use scr_core::session::Call;

use super::door::{door, failed, guarded, speaks, together};
use super::shared::Flag;
use crate::engine;

/// Starts SCR: the program has come to it on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn SCR_Init() -> c_int {
    guarded(Call::Init, || {
        let (state, was_open, session, lines) = {
            let door = door();
            (door.state, door.was_open, door.session, door.lines.clone())
        };
        let why_not = match state.after(Call::Init) {
            _ if !engine::is_mpi_running() => Some("MPI_Init comes first".to_string()),
            None => Some(state.why_not(Call::Init)),
            Some(_) if was_open => Some("SCR_Finalize was called: it is to be called once".into()),
            Some(_) => None,
        };
        if let Some(why) = why_not {
            failed(messages::CALL_NOT_NOW, speaks(session), format!("SCR_Init: {why}"));
            return Err(());
        }
        let joined = engine::session().is_some();
        // Why there is none has been told; the program's files go where they are called.
        let session = engine::start_program(&lines).unwrap_or_default();
        if let Some(session) = session {
            session.program.use_by_program(joined.then_some(lines.as_slice()));
        }
        let mut door = door();
        door.state = state.after(Call::Init).unwrap_or(state);
        (door.was_open, door.session) = (true, session);
        Ok(())
    })
}

/// Ends SCR with the last flushes, unless the shim is there; then they come with MPI_Finalize.
#[unsafe(no_mangle)]
pub extern "C" fn SCR_Finalize() -> c_int {
    together(
        Call::Finalize,
        || Ok(((), Vec::new())),
        |(), session| {
            door().session = None;
            session.map_or(Ok(()), |session| {
                session.program.finish_program();
                Ok(())
            })
        },
    )
}

/// Returns the version of the library; the text is not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn SCR_Get_version() -> *mut c_char {
    c"v3.1.0".as_ptr().cast_mut()
}

/// Returns why the last call that failed on this rank did, empty if none has; the text stays until
/// the next one fails, and is not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn SCR_Last_error() -> *const c_char {
    let door = door();
    door.message.as_ref().map_or(c"".as_ptr(), |message| message.as_ptr())
}

/// Tells in `flag` whether a halt condition holds. Safety: `flag` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Should_exit(flag: *mut c_int) -> c_int {
    together(
        Call::ShouldExit,
        // SAFETY: by this function's contract.
        || Ok((unsafe { Flag::new(flag) }?, Vec::new())),
        |flag, session| {
            flag.set(session.map_or(Ok(false), |session| session.program.should_exit())?);
            Ok(())
        },
    )
}

/// Tells in `flag` whether a checkpoint is due. Safety: `flag` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Need_checkpoint(flag: *mut c_int) -> c_int {
    together(
        Call::NeedCheckpoint,
        // SAFETY: by this function's contract.
        || Ok((unsafe { Flag::new(flag) }?, Vec::new())),
        |flag, session| {
            // Without us the program has to save what it can.
            flag.set(session.map_or(Ok(true), |session| session.program.is_checkpoint_due())?);
            Ok(())
        },
    )
}

/// Makes the error of a program that goes on without a session, and cannot have what it asks for.
pub fn without_session(what: &str) -> Error {
    Error::Refused(format!("SCR is switched off, or could not start (see above): {what}"))
}
