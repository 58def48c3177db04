//! Which engine fits the running MPI, and how it is opened.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::base::messages::{self, Id};
use crate::base::real;
use crate::engine::abi::{ABI_VERSION, ENTRY, Engine};

/// Why there is no engine, and the message that explains it.
type Unusable = (Id, String);

fn unusable(why: String) -> Unusable {
    (messages::ENGINE_UNUSABLE, why)
}

/// Finds out which MPI it is, `openmpi` or `mpich`, from the text of MPI_Get_library_version.
pub(super) fn flavour_of(version: &str) -> Option<&'static str> {
    if version.starts_with("Open MPI") {
        Some("openmpi")
    } else if version.contains("MPICH") {
        Some("mpich")
    } else {
        None
    }
}

/// Returns the absolute path of this library as the loader knows it, symlinks and relative parts
/// resolved.
pub(crate) fn library_path() -> PathBuf {
    let name = real::object_info(real::own_address()).map_or(PathBuf::new(), |info| {
        // SAFETY: the loader's name of a loaded object is a C string that stays.
        PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes()))
    });
    std::fs::canonicalize(&name).unwrap_or(name)
}

/// Opens the library that the program itself is linked with, else
/// `<directory of the shim>/scr/<flavour>/libscr.so`: calls of SCR and the shim come to one
/// session.
pub(super) fn open_engine(flavour: &str) -> Result<Engine, Unusable> {
    if let Some(linked) = linked_engine() {
        return linked;
    }
    let shim = library_path();
    let place = shim.parent().unwrap_or(Path::new("/")).join("scr").join(flavour);
    let file = place.join("libscr.so");
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
        Some(entry) => table_of(handle, entry, &file),
        None => Err(unusable(format!("{} is not an engine of SCR", file.display()))),
    }
}

/// The engine that the program has loaded, if it has one.
fn linked_engine() -> Option<Result<Engine, Unusable>> {
    let entry = real::in_any_object(ENTRY)?;
    let info = real::object_info(entry.get())?;
    // SAFETY: the loader's name of a loaded object is a C string that stays; it is loaded already.
    let (file, handle) = unsafe {
        let name = CStr::from_ptr(info.dli_fname);
        let handle = libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD);
        (PathBuf::from(OsStr::from_bytes(name.to_bytes())), handle)
    };
    (!handle.is_null()).then(|| table_of(handle, entry, &file))
}

/// The functions of the engine in `file`.
fn table_of(handle: *mut c_void, entry: NonZeroUsize, file: &Path) -> Result<Engine, Unusable> {
    if !same_mpi(handle) {
        return Err(unusable(format!(
            "the engine {} is linked with another MPI library than the program",
            file.display()
        )));
    }
    // SAFETY: the contract (abi.rs) says that the symbol is a function of this type, and that the
    // table begins with its size and version whatever else has changed.
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

/// True if the MPI that the engine sees has been initialised, hence is the program's.
fn same_mpi(engine: *mut c_void) -> bool {
    // SAFETY: the handle is live; MPI_Initialized takes a pointer to an int and may be called at
    // any time.
    unsafe {
        let address = libc::dlsym(engine, c"PMPI_Initialized".as_ptr());
        if address.is_null() {
            return true;
        }
        let initialized: unsafe extern "C" fn(*mut c_int) -> c_int = std::mem::transmute(address);
        let mut flag = 0;
        initialized(&raw mut flag) == 0 && flag != 0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_flavours_and_the_unknown() {
        assert_eq!(flavour_of("Open MPI v4.1.4, package: Debian"), Some("openmpi"));
        assert_eq!(flavour_of("MPICH Version:\t4.0.2\nMPICH Release date"), Some("mpich"));
        assert_eq!(flavour_of("HAL MPI 1.0"), None);
    }
}
