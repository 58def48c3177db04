//! Checkpoints and output, and where their files are.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use scr_core::error::{Error, Result};
use scr_core::session::{Call, Flags, ProgramState, Session};

use super::door::{alone, together, told};
use super::shared::{Buffer, is_null, text_of};

const FLAG_CHECKPOINT: c_int = 1;
const FLAG_OUTPUT: c_int = 2;

#[unsafe(no_mangle)]
pub extern "C" fn SCR_Start_checkpoint() -> c_int {
    let flags = Flags { checkpoint: true, output: false };
    together(
        Call::StartCheckpoint,
        || Ok(((), Vec::new())),
        |(), session| session.map_or(Ok(()), |session| session.program.start_dataset(None, flags)),
    )
}

/// Ends a checkpoint; `valid` is 0 where this rank could not write all of its files.
#[unsafe(no_mangle)]
pub extern "C" fn SCR_Complete_checkpoint(valid: c_int) -> c_int {
    complete(Call::CompleteCheckpoint, valid)
}

/// Begins a dataset, called `name` if that is not null; `flags` say what it is for. Safety: `name`
/// is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Start_output(name: *const c_char, flags: c_int) -> c_int {
    // SAFETY: by this function's contract.
    start_output(unsafe { text_of(name, "the name") }, flags)
}

pub(super) fn start_output(name: Result<Option<&str>>, flags: c_int) -> c_int {
    together(
        Call::StartOutput,
        || {
            let name = name?;
            let known = flags_of(flags)?;
            let title = name.map_or("no name".to_string(), |name| format!("\"{name}\""));
            let arguments = format!("{title} (flags {flags})").into_bytes();
            Ok(((name, known), arguments))
        },
        |(name, flags), session| {
            session.map_or(Ok(()), |session| session.program.start_dataset(name, flags))
        },
    )
}

/// Ends a dataset; `valid` is 0 where this rank could not write all of its files.
#[unsafe(no_mangle)]
pub extern "C" fn SCR_Complete_output(valid: c_int) -> c_int {
    complete(Call::CompleteOutput, valid)
}

fn complete(call: Call, valid: c_int) -> c_int {
    together(
        call,
        || Ok((valid != 0, Vec::new())),
        |valid, session| match session {
            Some(session) => match session.program.complete_dataset(valid)? {
                true => Ok(()),
                false => Err(told()),
            },
            None if valid => Ok(()),
            None => Err(Error::Refused("the program says that it is not valid".to_string())),
        },
    )
}

fn flags_of(flags: c_int) -> Result<Flags> {
    if flags & !(FLAG_CHECKPOINT | FLAG_OUTPUT) != 0 || flags == 0 {
        return Err(Error::Refused(format!(
            "flags {flags} are not SCR_FLAG_CHECKPOINT (1), SCR_FLAG_OUTPUT (2), or both"
        )));
    }
    let is_set = |flag: c_int| flags & flag != 0;
    Ok(Flags { checkpoint: is_set(FLAG_CHECKPOINT), output: is_set(FLAG_OUTPUT) })
}

/// Tells in `file` where the program is to access the file `name`. Safety: `name` is null or
/// NUL-terminated; `file` is null or has SCR_MAX_FILENAME bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Route_file(name: *const c_char, file: *mut c_char) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { route_file(text_of(name, "the name of the file"), Buffer::new(file)) }
}

pub(super) fn route_file(name: Result<Option<&str>>, file: Buffer) -> c_int {
    alone(Call::RouteFile, |state, session| {
        let name = name?.ok_or_else(|| is_null("the name of the file"))?;
        if !file.is_there() {
            return Err(is_null("the buffer for the path"));
        }
        let path = route(Path::new(name), state, session);
        // No path is left over from the call before.
        file.fill(path.as_ref().map_or(&[], |path| path.as_os_str().as_bytes()))?;
        path.map(drop)
    })
}

fn route(name: &Path, state: ProgramState, session: Option<&Session>) -> Result<PathBuf> {
    if name.as_os_str().is_empty() {
        return Err(Error::Refused("the name of the file is empty".to_string()));
    }
    match (state, session) {
        (ProgramState::Checkpoint | ProgramState::Output, Some(session)) => {
            session.program.route_output(name)
        }
        (ProgramState::Checkpoint | ProgramState::Output, None) => {
            let dir = name.parent().filter(|dir| !dir.as_os_str().is_empty());
            let made = dir.map_or(Ok(()), std::fs::create_dir_all);
            made.map_err(|error| Error::io("cannot create the directory of", name, error))?;
            Ok(name.to_path_buf())
        }
        (ProgramState::Restart, Some(session)) => session.program.route_input(name),
        _ => Ok(name.to_path_buf()),
    }
}
