//! The door that the program's calls come through: where it is, whether all ranks come, and what
//! becomes of an error. Nothing ends the program, and no panic leaves.

use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use scr_core::error::{Error, Result};
use scr_core::log::{self, Id, messages};
use scr_core::session::{Call, Consent, ProgramState, Session};

use super::shared::{FAILURE, SUCCESS};
use crate::engine;

#[derive(Default)]
pub struct Door {
    pub state: ProgramState,
    pub lines: Vec<String>,
    pub was_open: bool,
    /// Without one the program goes on, and files go where they are called.
    pub session: Option<&'static Session>,
    pub message: Option<CString>,
}

static DOOR: Mutex<Door> = Mutex::new(Door {
    state: ProgramState::Uninit,
    lines: Vec::new(),
    was_open: false,
    session: None,
    message: None,
});

/// Locks what is never held while ranks talk to one another.
pub fn door() -> MutexGuard<'static, Door> {
    DOOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call that all ranks make: `prepare` looks at the arguments and says what must be equal
/// on all of them; `body` does it, if all can.
pub fn together<A>(
    call: Call,
    prepare: impl FnOnce() -> Result<(A, Vec<u8>)>,
    body: impl FnOnce(A, Option<&'static Session>) -> Result<()>,
) -> c_int {
    guarded(call, || {
        let (state, session) = {
            let door = door();
            (door.state, door.session)
        };
        let valid = state.after(call).ok_or_else(|| Error::Refused(state.why_not(call)));
        let prepared = valid.and_then(|next| Ok((next, prepare()?)));
        let error = prepared.as_ref().err().map(Error::to_string);
        let arguments = prepared.as_ref().map_or(&[][..], |(_, (_, arguments))| arguments);
        let agreed = match session {
            // The ranks that could do it have to hear of one that cannot.
            Some(session) => {
                let consent = Consent { call, error, arguments };
                session.conference.take_turn().and_then(|()| session.program.consent(&consent))
            }
            None => Ok(()),
        };
        let done = match (agreed, prepared) {
            (Err(error), _) | (Ok(()), Err(error)) => Err(error),
            (Ok(()), Ok((next, (argument, _)))) => body(argument, session).map(|()| next),
        };
        if let Some(session) = session {
            session.conference.give_turn();
        }
        let mut door = door();
        match done {
            Ok(next) => {
                door.state = next;
                Ok(())
            }
            Err(error) => {
                door.state = state.after_failure(call);
                drop(door);
                // All ranks have the same error where they could agree on it.
                let text = error.to_string();
                let id = of_call(state.after(call).is_some());
                let speaks = speaks(session) && !text.is_empty();
                let text =
                    if text.is_empty() { "it failed; a message has said why" } else { &text };
                failed(id, speaks, format!("{}: {text}", call.name()));
                Err(())
            }
        }
    })
}

/// The call was to come where the program is if it `fits`.
fn of_call(fits: bool) -> Id {
    if fits { messages::CALL_FAILED } else { messages::CALL_NOT_NOW }
}

/// Tells whether this rank speaks for all, where all have the same to say.
pub fn speaks(session: Option<&Session>) -> bool {
    session.map_or_else(engine::is_first_rank, |session| session.program.speaks())
}

/// Makes an error of which a message has been given.
pub fn told() -> Error {
    Error::Refused(String::new())
}

/// Makes a call that a rank makes for itself.
pub fn alone(
    call: Call,
    body: impl FnOnce(ProgramState, Option<&'static Session>) -> Result<()>,
) -> c_int {
    guarded(call, || {
        let (state, session) = {
            let door = door();
            (door.state, door.session)
        };
        let valid = state.after(call).ok_or_else(|| Error::Refused(state.why_not(call)));
        valid.and_then(|_| body(state, session)).map_err(|error| {
            let who = session.map(|session| format!("rank {}: ", session.program.rank()));
            let text = format!("{}{}: {error}", who.unwrap_or_default(), call.name());
            failed(of_call(state.after(call).is_some()), true, text);
        })
    })
}

/// Takes a panic for an error like others, which ends what we do for the program.
pub fn guarded(call: Call, body: impl FnOnce() -> std::result::Result<(), ()>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        if let Some(session) = engine::session() {
            session.stores.give_up_routing("an internal error (a panic, see above)");
        }
        failed(
            messages::CALL_FAULT,
            true,
            format!("{}: an internal error (a panic, see above)", call.name()),
        );
        Err(())
    });
    if done.is_ok() { SUCCESS } else { FAILURE }
}

/// Runs a call that is valid in every state.
pub fn anytime(call: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(body));
    let done = done.unwrap_or_else(|_| Err(Error::Defect("an internal error (a panic)".into())));
    done.map_or_else(
        |error| {
            failed(messages::CALL_FAILED, true, format!("{call}: {error}"));
            FAILURE
        },
        |()| SUCCESS,
    )
}

/// Says why, unless another rank does, and keeps it.
pub fn failed(id: Id, speaks: bool, message: String) {
    if speaks {
        log::warn(id, format_args!("{message}"));
    }
    door().message = CString::new(message).ok();
}
