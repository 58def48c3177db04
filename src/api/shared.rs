//! What C gives and takes: strings and places for answers.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use scr_core::error::{Error, Result};
use scr_core::session::FILENAME_MAX;

/// SCR_SUCCESS.
pub const SUCCESS: c_int = 0;
/// Whatever went wrong: a message has said what.
pub const FAILURE: c_int = 1;

/// The text behind a C string; `None` for NULL.
///
/// # Errors
/// It is not UTF-8, which no record could have.
///
/// # Safety
/// `text` is null or NUL-terminated and lives until the result is dropped.
pub unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, NUL-terminated by this function's contract.
    let text = unsafe { CStr::from_ptr(text) };
    let unreadable = |_| Error::Other(format!("{what} is not UTF-8 text: {text:?}"));
    text.to_str().map(Some).map_err(unreadable)
}

/// That a place for an answer is missing.
pub fn is_null(what: &str) -> Error {
    Error::Other(format!("{what} is NULL"))
}

/// A place for a flag.
#[derive(Clone, Copy)]
pub struct Flag(*mut c_int);

impl Flag {
    /// # Safety
    /// `place` is null or valid for a write until the flag is set.
    pub unsafe fn new(place: *mut c_int) -> Result<Flag> {
        if place.is_null() { Err(is_null("flag")) } else { Ok(Flag(place)) }
    }

    /// Sets it.
    pub fn set(self, value: bool) {
        // SAFETY: valid by the contract of `new`.
        unsafe { *self.0 = c_int::from(value) };
    }
}

/// A buffer of SCR_MAX_FILENAME bytes, or none.
#[derive(Clone, Copy)]
pub struct Buffer(*mut c_char);

impl Buffer {
    /// # Safety
    /// `place` is null or has SCR_MAX_FILENAME bytes that are valid until the buffer is filled.
    pub unsafe fn new(place: *mut c_char) -> Buffer {
        Buffer(place)
    }

    /// Whether there is one.
    pub fn is_there(self) -> bool {
        !self.0.is_null()
    }

    /// Copies `text` into it.
    ///
    /// # Errors
    /// It does not fit: the buffer has an empty string then.
    pub fn fill(self, text: &[u8]) -> Result<()> {
        if self.0.is_null() {
            return Ok(());
        }
        let fits = text.len() < FILENAME_MAX && !text.contains(&0);
        let text = if fits { text } else { &[] };
        let to = self.0.cast::<u8>();
        // SAFETY: the buffer has FILENAME_MAX bytes by the contract of `new`, and the text with its
        // NUL has no more.
        unsafe {
            to.copy_from_nonoverlapping(text.as_ptr(), text.len());
            to.add(text.len()).write(0);
        }
        let most = FILENAME_MAX - 1;
        let why =
            || Error::Other(format!("the answer is longer than SCR_MAX_FILENAME - 1 ({most})"));
        if fits { Ok(()) } else { Err(why()) }
    }
}
