//! Where the engine is, and how it is opened.

use std::ffi::{CStr, CString, OsStr};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use scr_abi::messages::{self, Id};
use scr_abi::objects::object_info;
use scr_abi::{ABI_VERSION, ENTRY, Engine};

use crate::base::real;

type Unusable = (Id, String);

fn unusable(why: String) -> Unusable {
    (messages::ENGINE_UNUSABLE, why)
}

/// Resolves symlinks and relative parts.
pub(crate) fn library_path() -> PathBuf {
    let name = object_info(real::own_address()).map_or(PathBuf::new(), |info| {
        // SAFETY: the loader's name of a loaded object is a C string that stays.
        PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes()))
    });
    std::fs::canonicalize(&name).unwrap_or(name)
}

/// Prefers the library that the program itself is linked with: calls of SCR and the shim come to
/// one session.
pub(crate) fn open_engine() -> Result<Engine, Unusable> {
    if let Some(linked) = linked_engine() {
        return linked;
    }
    let shim = library_path();
    let file = shim.parent().unwrap_or(Path::new("/")).join("libscr.so");
    if !file.exists() {
        return Err((
            messages::ENGINE_MISSING,
            format!(
                "the engine {} is missing (expected beside {})",
                file.display(),
                shim.display()
            ),
        ));
    }
    let name =
        CString::new(file.as_os_str().as_bytes()).map_err(|error| unusable(error.to_string()))?;
    // SAFETY: the engine is our own library; its initialisers do nothing but Rust's.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(unusable(format!(
            "the engine {} cannot be loaded: {}",
            file.display(),
            loader_error()
        )));
    }
    // SAFETY: the handle is live, the name a C string.
    let entry = unsafe { libc::dlsym(handle, ENTRY.as_ptr()) };
    match NonZeroUsize::new(entry as usize) {
        Some(entry) => table_of(entry, &file),
        None => Err(unusable(format!("{} is not an engine of SCR", file.display()))),
    }
}

fn linked_engine() -> Option<Result<Engine, Unusable>> {
    let entry = real::in_any_object(ENTRY)?;
    let info = object_info(entry.get())?;
    // SAFETY: the loader's name of a loaded object is a C string that stays.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(table_of(entry, Path::new(OsStr::from_bytes(name.to_bytes()))))
}

fn table_of(entry: NonZeroUsize, file: &Path) -> Result<Engine, Unusable> {
    // SAFETY: the contract (`scr_abi`) says that the symbol is a function of this type, and that
    // the table begins with its size and version whatever else has changed.
    unsafe {
        let entry: extern "C" fn() -> *const Engine = std::mem::transmute(entry.get());
        let table = entry();
        if table.is_null()
            || (*table).size != size_of::<Engine>()
            || (*table).version != ABI_VERSION
        {
            return Err(unusable(format!(
                "the engine {} and {} are of different versions",
                file.display(),
                library_path().display()
            )));
        }
        Ok(*table)
    }
}

fn loader_error() -> String {
    // SAFETY: dlerror returns null or a C string that stays until the next dl call of this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "unknown error".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}
