//! The calls of Fortran programs. An argument is the address of a variable, or null where the
//! program leaves it out; the length of each CHARACTER argument follows after all others. Compilers
//! pass it as `int` or as `size_t`: the lower half is read, longer than that is none.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use scr_core::error::{Error, Result};
use scr_core::session::Call;

use super::config::answer;
use super::door::anytime;
use super::life::{SCR_Finalize, SCR_Get_version, SCR_Init, SCR_Need_checkpoint, SCR_Should_exit};
use super::restart::{SCR_Complete_restart, by_name, have_restart, start_restart};
use super::shared::Buffer;
use super::write::{
    SCR_Complete_checkpoint, SCR_Complete_output, SCR_Start_checkpoint, route_file, start_output,
};

type Integer = *mut c_int;
type Text = *mut c_char;
type Length = c_int;

/// Exports each call under the names by which compilers know a subroutine: with an underscore
/// (gfortran, flang, Intel, NVIDIA), as it is, and with two (`-fsecond-underscore`). Its arguments:
/// those before IERROR, IERROR, the lengths; then what IERROR becomes.
macro_rules! export {
    ($($name:ident $($alias:ident)+: $before:tt $error:ident $lengths:tt => $code:expr;)*) => {$(
        export!(@ $name $before $error $lengths $code);
        $(export!(@ $alias $before $error $lengths $code);)+
    )*};
    (@ $name:ident ($($before:ident: $kind:ty),*) $error:ident ($($length:ident),*) $code:expr) => {
        /// Converts the arguments. Safety: each is null or a variable of its type; lengths are
        /// those of the texts.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($before: $kind,)* $error: Integer $(, $length: Length)*
        ) {
            // SAFETY: by this function's contract.
            unsafe {
                let code = $code;
                if !$error.is_null() {
                    *$error = code;
                }
            }
        }
    };
}

export! {
    scr_init_ scr_init scr_init__: () error () => SCR_Init();
    scr_finalize_ scr_finalize scr_finalize__: () error () => SCR_Finalize();
    scr_config_ scr_config scr_config__:
        (config: Text, value: Text) error (length, room) => anytime("SCR_Config", || {
            let found = answer(text_of(config, length, "the setting"))?.unwrap_or_default();
            Buffer::padded(value, room).fill(found.as_bytes())
        });
    scr_get_version_ scr_get_version scr_get_version__:
        (version: Text) error (room) => anytime("SCR_Get_version", || {
            let text = CStr::from_ptr(SCR_Get_version());
            Buffer::padded(version, room).fill(text.to_bytes())
        });
    scr_should_exit_ scr_should_exit scr_should_exit__:
        (flag: Integer) error () => SCR_Should_exit(flag);
    scr_route_file_ scr_route_file scr_route_file__:
        (name: Text, file: Text) error (length, room) => {
            let name = text_of(name, length, "the name of the file");
            route_file(name, Buffer::padded(file, room))
        };
    scr_have_restart_ scr_have_restart scr_have_restart__:
        (flag: Integer, name: Text) error (room) => {
            let name = Buffer::padded(name, room);
            // Blank where there is none. No text fits as well as an empty one.
            let _ = name.fill(b"");
            have_restart(flag, name)
        };
    scr_start_restart_ scr_start_restart scr_start_restart__:
        (name: Text) error (room) => start_restart(Buffer::padded(name, room));
    scr_complete_restart_ scr_complete_restart scr_complete_restart__:
        (valid: Integer) error () => SCR_Complete_restart(number_of(valid));
    scr_need_checkpoint_ scr_need_checkpoint scr_need_checkpoint__:
        (flag: Integer) error () => SCR_Need_checkpoint(flag);
    scr_start_checkpoint_ scr_start_checkpoint scr_start_checkpoint__:
        () error () => SCR_Start_checkpoint();
    scr_complete_checkpoint_ scr_complete_checkpoint scr_complete_checkpoint__:
        (valid: Integer) error () => SCR_Complete_checkpoint(number_of(valid));
    scr_start_output_ scr_start_output scr_start_output__:
        (name: Text, flags: Integer) error (length) => {
            // Blank: Fortran's way to give none.
            let name = text_of(name, length, "the name").map(|name| name.filter(|n| !n.is_empty()));
            start_output(name, number_of(flags))
        };
    scr_complete_output_ scr_complete_output scr_complete_output__:
        (valid: Integer) error () => SCR_Complete_output(number_of(valid));
    scr_current_ scr_current scr_current__:
        (name: Text) error (length) => by_name(Call::Current, text_of(name, length, "the name"));
    scr_drop_ scr_drop scr_drop__:
        (name: Text) error (length) => by_name(Call::Drop, text_of(name, length, "the name"));
    scr_delete_ scr_delete scr_delete__:
        (name: Text) error (length) => by_name(Call::Delete, text_of(name, length, "the name"));
}

/// Safety: `text` is null or has `length` bytes that live until the result is dropped.
unsafe fn text_of<'a>(text: Text, length: Length, what: &str) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: not null; `length` bytes by this function's contract.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let blanks = bytes.iter().rev().take_while(|&&byte| byte == b' ').count();
    let bytes = &bytes[..bytes.len() - blanks];
    let unreadable =
        |_| Error::Refused(format!("{what} is not UTF-8 text: {}", bytes.escape_ascii()));
    std::str::from_utf8(bytes).map(Some).map_err(unreadable)
}

/// The number is 0, which says neither valid nor a kind of dataset, if the program gives none.
/// Safety: `number` is null or valid for a read.
unsafe fn number_of(number: Integer) -> c_int {
    // SAFETY: by this function's contract.
    if number.is_null() { 0 } else { unsafe { *number } }
}
