//! What C gives and takes: strings and places for answers.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use scr_core::error::{Error, Result};
use scr_core::session::FILENAME_MAX;

pub const SUCCESS: c_int = 0;
pub const FAILURE: c_int = 1;

/// Returns `None` for NULL. A text that is not UTF-8, which no record could have, is an error.
/// Safety: `text` is null or NUL-terminated and lives until the result is dropped.
pub unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, NUL-terminated by this function's contract.
    let text = unsafe { CStr::from_ptr(text) };
    let unreadable = |_| Error::Refused(format!("{what} is not UTF-8 text: {text:?}"));
    text.to_str().map(Some).map_err(unreadable)
}

pub fn is_null(what: &str) -> Error {
    Error::Refused(format!("{what} is NULL"))
}

#[derive(Clone, Copy)]
pub struct Flag(*mut c_int);

impl Flag {
    /// Refuses null. Safety: `place` is null or valid for a write until the flag is set.
    pub unsafe fn new(place: *mut c_int) -> Result<Flag> {
        if place.is_null() { Err(is_null("flag")) } else { Ok(Flag(place)) }
    }

    pub fn set(self, value: bool) {
        // SAFETY: valid by the contract of `new`.
        unsafe { *self.0 = c_int::from(value) };
    }
}

/// A buffer of SCR_MAX_FILENAME bytes, a CHARACTER variable of Fortran, or none.
#[derive(Clone, Copy)]
pub struct Buffer {
    place: *mut c_char,
    size: usize,
    is_padded: bool,
}

impl Buffer {
    /// Ends the text with a NUL. Safety: `place` is null or has SCR_MAX_FILENAME bytes, valid
    /// until the buffer is filled.
    pub unsafe fn new(place: *mut c_char) -> Buffer {
        Buffer { place, size: FILENAME_MAX, is_padded: false }
    }

    /// Pads the text. Safety: `place` is null or a CHARACTER variable of `length`, valid
    /// until the buffer is filled.
    pub unsafe fn padded(place: *mut c_char, length: c_int) -> Buffer {
        Buffer { place, size: usize::try_from(length).unwrap_or(0), is_padded: true }
    }

    pub fn is_there(self) -> bool {
        !self.place.is_null()
    }

    /// Leaves an empty string, or blanks, where the text does not fit; that is an error.
    pub fn fill(self, text: &[u8]) -> Result<()> {
        if self.place.is_null() {
            return Ok(());
        }
        let most = if self.is_padded { self.size } else { self.size - 1 };
        let fits = text.len() <= most && !text.contains(&0);
        let text_there = if fits { text } else { &[] };
        let to = self.place.cast::<u8>();
        // SAFETY: `size` bytes by the contract of `new` and `padded`; the text, and its NUL where
        // there is one, have no more.
        unsafe {
            to.copy_from_nonoverlapping(text_there.as_ptr(), text_there.len());
            let after = to.add(text_there.len());
            match self.is_padded {
                true => after.write_bytes(b' ', self.size - text_there.len()),
                false => after.write(0),
            }
        }
        let why = || {
            let what = if self.is_padded { "the variable has" } else { "SCR_MAX_FILENAME - 1 is" };
            let length = text.len();
            Error::Refused(format!("the answer has {length} characters, {what} {most}"))
        };
        if fits { Ok(()) } else { Err(why()) }
    }
}
