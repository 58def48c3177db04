//! The calls of libscr.so, and their arguments in the form of C.

use std::ffi::{c_char, c_int, CStr, CString};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

const FILENAME_BYTES: usize = 1024;
const VALUE_BYTES: usize = 16384;

#[link(name = "scr")]
extern "C" {
    fn SCR_Init() -> c_int;
    fn SCR_Finalize() -> c_int;
    fn SCR_Get_version() -> *const c_char;
    fn SCR_Last_error() -> *const c_char;
    fn SCR_Should_exit(flag: *mut c_int) -> c_int;
    fn SCR_Need_checkpoint(flag: *mut c_int) -> c_int;
    fn SCR_Route_file(name: *const c_char, file: *mut c_char) -> c_int;
    fn SCR_Have_restart(flag: *mut c_int, name: *mut c_char) -> c_int;
    fn SCR_Start_restart(name: *mut c_char) -> c_int;
    fn SCR_Complete_restart(valid: c_int) -> c_int;
    fn SCR_Start_checkpoint() -> c_int;
    fn SCR_Complete_checkpoint(valid: c_int) -> c_int;
    fn SCR_Start_output(name: *const c_char, flags: c_int) -> c_int;
    fn SCR_Complete_output(valid: c_int) -> c_int;
    fn SCR_Current(name: *const c_char) -> c_int;
    fn SCR_Drop(name: *const c_char) -> c_int;
    fn SCR_Delete(name: *const c_char) -> c_int;
    // The entry for Fortran: it tells an error from a value that is not there.
    fn scr_config_(
        setting: *const c_char,
        value: *mut c_char,
        error: *mut c_int,
        length: usize,
        room: usize,
    );
}

/// The library's message stays until the next call that fails.
fn turn() -> MutexGuard<'static, ()> {
    static CALLS: Mutex<()> = Mutex::new(());
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the library's message if the call fails.
fn call(call: impl FnOnce() -> c_int) -> Result<()> {
    let _turn = turn();
    if call() == 0 {
        return Ok(());
    }
    // SAFETY: a C string until the next call that fails, which waits for its turn.
    let text = unsafe { CStr::from_ptr(SCR_Last_error()) };
    Err(Error(text.to_string_lossy().into_owned()))
}

fn text(text: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(text).map_err(|error| Error(format!("a name with a NUL in it: {error}")))
}

/// The library ends its answer with a NUL.
struct Place([u8; FILENAME_BYTES]);

impl Place {
    fn new() -> Place {
        Place([0; FILENAME_BYTES])
    }

    fn address(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    fn bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

pub fn init() -> Result<()> {
    // SAFETY: it has no preconditions.
    call(|| unsafe { SCR_Init() })
}

pub fn finalize() -> Result<()> {
    // SAFETY: it has no preconditions.
    call(|| unsafe { SCR_Finalize() })
}

pub fn config(setting: &str) -> Result<Option<String>> {
    let (mut value, mut error) = (vec![0_u8; VALUE_BYTES], 0);
    call(|| {
        // SAFETY: a text and a place of the lengths that are passed, and a place for the code.
        unsafe {
            scr_config_(
                setting.as_ptr().cast(),
                value.as_mut_ptr().cast(),
                &mut error,
                setting.len(),
                VALUE_BYTES,
            );
        }
        error
    })?;
    let value = String::from_utf8_lossy(&value).trim_end_matches([' ', '\0']).to_owned();
    Ok((!value.is_empty()).then_some(value))
}

pub fn version() -> String {
    // SAFETY: a C string that stays.
    unsafe { CStr::from_ptr(SCR_Get_version()) }.to_string_lossy().into_owned()
}

pub fn should_exit() -> Result<bool> {
    let mut flag = 0;
    // SAFETY: a place for a flag.
    call(|| unsafe { SCR_Should_exit(&mut flag) })?;
    Ok(flag != 0)
}

pub fn need_checkpoint() -> Result<bool> {
    let mut flag = 0;
    // SAFETY: a place for a flag.
    call(|| unsafe { SCR_Need_checkpoint(&mut flag) })?;
    Ok(flag != 0)
}

pub fn route_file(name: &[u8]) -> Result<Vec<u8>> {
    let (name, mut file) = (text(name)?, Place::new());
    // SAFETY: a C string, and a place of the size that the library asks for.
    call(|| unsafe { SCR_Route_file(name.as_ptr(), file.address()) })?;
    Ok(file.bytes().to_vec())
}

pub fn have_restart() -> Result<Option<String>> {
    let (mut flag, mut name) = (0, Place::new());
    // SAFETY: a place for a flag, and one of the size that the library asks for.
    call(|| unsafe { SCR_Have_restart(&mut flag, name.address()) })?;
    Ok((flag != 0).then(|| name.name()))
}

pub fn start_restart() -> Result<String> {
    let mut name = Place::new();
    // SAFETY: a place of the size that the library asks for.
    call(|| unsafe { SCR_Start_restart(name.address()) })?;
    Ok(name.name())
}

pub fn complete_restart(valid: bool) -> Result<()> {
    // SAFETY: it has no preconditions.
    call(|| unsafe { SCR_Complete_restart(valid.into()) })
}

pub fn start_checkpoint() -> Result<()> {
    // SAFETY: it has no preconditions.
    call(|| unsafe { SCR_Start_checkpoint() })
}

pub fn complete_checkpoint(valid: bool) -> Result<()> {
    // SAFETY: it has no preconditions.
    call(|| unsafe { SCR_Complete_checkpoint(valid.into()) })
}

pub fn start_output(name: Option<&str>, flags: i32) -> Result<()> {
    let name = name.map(text).transpose()?;
    let address = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
    // SAFETY: a C string, or null.
    call(|| unsafe { SCR_Start_output(address, flags) })
}

pub fn complete_output(valid: bool) -> Result<()> {
    // SAFETY: it has no preconditions.
    call(|| unsafe { SCR_Complete_output(valid.into()) })
}

pub fn current(name: &str) -> Result<()> {
    let name = text(name)?;
    // SAFETY: a C string.
    call(|| unsafe { SCR_Current(name.as_ptr()) })
}

pub fn drop(name: &str) -> Result<()> {
    let name = text(name)?;
    // SAFETY: a C string.
    call(|| unsafe { SCR_Drop(name.as_ptr()) })
}

pub fn delete(name: &str) -> Result<()> {
    let name = text(name)?;
    // SAFETY: a C string.
    call(|| unsafe { SCR_Delete(name.as_ptr()) })
}
