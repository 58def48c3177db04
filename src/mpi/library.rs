//! The program's own MPI: this library is linked with none. A process can have more than one (a
//! plug-in host, a tool): the one counts that has been initialised. Its functions are those of the
//! object itself: of those by name alone, some would be the shim's.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::sync::OnceLock;

use scr_abi::objects::{loaded_objects, object_info};
use scr_core::error::{Error, Result};
use scr_core::log::messages;

use super::functions::Functions;
use super::trial;
use super::values::Values;

/// The limit of MPICH; those of others are lower.
const VERSION_BYTES: usize = 8192;

/// A function that every MPI has, and that neither the shim nor a profiling tool defines.
const MARK: &CStr = c"PMPI_Comm_rank";

/// An MPI that has been tried, and does what it is to do.
pub(super) struct Library {
    pub(super) call: Functions,
    pub(super) values: Values,
}

static FOUND: OnceLock<std::result::Result<Library, String>> = OnceLock::new();

/// Fails if no MPI has been initialised, or none that we can serve.
pub(super) fn library() -> Result<&'static Library> {
    if FOUND.get().is_none() {
        let Some(object) = Object::in_use() else {
            return Err(Error::Comm("MPI is not initialised".into()));
        };
        let _ = FOUND.set(object.examined());
        // What was found in it is used as long as the process lives.
        std::mem::forget(object);
    }
    match FOUND.get() {
        Some(Ok(library)) => Ok(library),
        Some(Err(why)) => Err(Error::Named { id: messages::MPI_UNKNOWN, text: why.clone() }),
        None => Err(Error::Comm("MPI is not initialised".into())),
    }
}

pub fn is_initialized() -> bool {
    library().is_ok() || FOUND.get().is_some()
}

pub fn refusal() -> Option<String> {
    let _ = library();
    FOUND.get()?.as_ref().err().cloned()
}

/// Returns the MPI of the program in a few words; empty if it does not say.
pub fn version() -> String {
    let Ok(library) = library() else { return String::new() };
    // SAFETY: the function of that name.
    unsafe { version_by(library.call.get_library_version) }
}

struct Object {
    /// What dlsym looks in for functions.
    functions: *mut c_void,
    /// A program has copies of data, which come first.
    data: *mut c_void,
}

impl Object {
    /// First the one that the program sees, then those that were loaded for somebody alone.
    fn all() -> impl Iterator<Item = Object> {
        let seen = find(libc::RTLD_DEFAULT, MARK).map(|address| {
            let name = object_info(address.get()).map_or(std::ptr::null(), |info| info.dli_fname);
            // The program itself is not to be had by its name, but its functions come first.
            Object { functions: open(name), data: libc::RTLD_DEFAULT }
        });
        let others = loaded_objects().into_iter().filter_map(|name| {
            let handle = open(name.as_ptr());
            let object = Object { functions: handle, data: handle };
            (!handle.is_null() && find(handle, MARK).is_some()).then_some(object)
        });
        seen.into_iter().chain(others)
    }

    fn in_use() -> Option<Object> {
        Object::all().find(|one| one.says(c"PMPI_Initialized") && !one.says(c"PMPI_Finalized"))
    }

    /// Calls the function `name`, which puts a flag into its only argument, at any time.
    fn says(&self, name: &CStr) -> bool {
        let Some(address) = find(self.functions, name) else { return false };
        let mut flag = 0;
        // SAFETY: the functions of these names are of the type.
        unsafe {
            let ask = std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_int) -> c_int>(
                address.get(),
            );
            ask(&mut flag) == 0 && flag != 0
        }
    }

    fn values(&self) -> Option<Values> {
        let address = |scope, name: &CStr| find(scope, name).map_or(0, NonZeroUsize::get);
        // SAFETY: an object that has a function of MPI has no other things under such names.
        unsafe { Values::of(|name| address(self.functions, name), |name| address(self.data, name)) }
    }

    fn examined(&self) -> std::result::Result<Library, String> {
        let refused = |why: String| {
            let name = find(self.functions, c"PMPI_Get_library_version").map(|address| {
                // SAFETY: the function of that name.
                unsafe { version_by(std::mem::transmute::<usize, GetVersion>(address.get())) }
            });
            let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unnamed".into());
            format!("this MPI (\"{name}\") cannot be served: {why}")
        };
        let values = self.values().ok_or_else(|| {
            refused("it has no mark of Open MPI, of MPICH or of the standard ABI".into())
        })?;
        // SAFETY: as in `values`.
        let call = unsafe { Functions::find(|name| find(self.functions, name)) }
            .map_err(|name| refused(format!("it has no function MPI_{name}")))?;
        let library = Library { call, values };
        match trial::run(&library) {
            Ok(()) => Ok(library),
            Err(what) => Err(refused(format!("it has the marks of {}, but {what}", values.family))),
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if !self.functions.is_null() {
            // SAFETY: a handle of ours, given back once: the program may unload the object.
            unsafe { libc::dlclose(self.functions) };
        }
    }
}

/// The handle is null if there is no such object.
fn open(name: *const c_char) -> *mut c_void {
    if name.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a name that the loader gave; RTLD_NOLOAD loads nothing and runs no initialiser.
    unsafe { libc::dlopen(name, libc::RTLD_NOLOAD | libc::RTLD_LAZY) }
}

fn find(scope: *mut c_void, name: &CStr) -> Option<NonZeroUsize> {
    // SAFETY: a live handle, or null, which stands for the program and all that it sees.
    NonZeroUsize::new(unsafe { libc::dlsym(scope, name.as_ptr()) } as usize)
}

type GetVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;

/// Safety: `get` is MPI_Get_library_version.
unsafe fn version_by(get: GetVersion) -> String {
    let mut text = [0 as c_char; VERSION_BYTES + 1];
    let mut length = 0;
    // SAFETY: by this function's contract; the buffer is as large as any MPI's limit, with a NUL at
    // its end, and the call takes no handle.
    unsafe {
        if get(text.as_mut_ptr(), &mut length) != 0 {
            return String::new();
        }
        first_words(&CStr::from_ptr(text.as_ptr()).to_string_lossy())
    }
}

/// Takes "Open MPI v4.1.4" or "MPICH Version: 4.0.2" of what goes on for lines.
fn first_words(version: &str) -> String {
    let line = version.lines().next().unwrap_or_default();
    let words = line.split([',', '\t']).map(str::trim).filter(|word| !word.is_empty());
    let words = words.take(2).filter(|word| !word.starts_with("package"));
    words.collect::<Vec<_>>().join(" ").chars().take(80).collect()
}
