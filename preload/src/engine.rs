//! The engine: which one fits the running MPI, how it is opened, and the one pointer that says
//! whether hooks have work to do.
//!
//! Invariant: [`active`] is `None` before MPI_Init has returned, and for good when the engine is
//! missing, does not fit, or has nothing to do. Then every hook passes. In children of a rank it is
//! the door to the rank ([`crate::child`]).

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::abi::{ABI_VERSION, ENTRY, Engine, Host, event};
use crate::aliases::{self, Alias};
use crate::message::complain;
use crate::{
    absence, child, ending, guard, hand, lazy, listing, lock, memory, moves, open_files, real,
    signals,
};

/// An engine that wants to be asked.
pub(crate) struct Active {
    /// Its functions.
    pub table: Engine,
    /// The prefix directory, canonical.
    pub prefix: Vec<u8>,
    /// It is this process's own; else that of the rank that started this process.
    pub own: bool,
}

static ACTIVE: AtomicPtr<Active> = AtomicPtr::new(std::ptr::null_mut());
/// The process that [`ACTIVE`] is for; a vfork child shares our memory but not this number.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// The engine, if hooks have work to do.
#[inline]
pub(crate) fn active() -> Option<&'static Active> {
    // SAFETY: the pointer is null or leaked from a box in `start`, hence valid for ever.
    unsafe { ACTIVE.load(Ordering::Acquire).as_ref() }
}

/// True in the process that hooks work for, false in its vfork children.
pub(crate) fn own_process() -> bool {
    // SAFETY: getpid has no preconditions.
    OWNER.load(Ordering::Relaxed) == unsafe { libc::getpid() }
}

extern "C" fn open_count(token: u64) -> c_int {
    c_int::try_from(open_files::writers_of(token)).unwrap_or(c_int::MAX)
}

extern "C" fn names_changed() {
    memory::forget();
}

/// Opens and starts the engine. Called once, after the real MPI_Init, with both guards held.
///
/// `granted` is the thread level. Collective inside the engine from its launch check on.
pub(crate) fn start(version: &str, granted: c_int) {
    if std::env::var_os("SCR_ENABLE").is_some_and(|value| value == "0") {
        return;
    }
    let Some(flavour) = flavour_of(version) else {
        let line = version.lines().next().unwrap_or_default();
        complain(&format!(
            "this MPI is not known to us: \"{}\". The program runs without checkpoint caching. \
             Open MPI and MPICH are served.",
            line.chars().take(80).collect::<String>()
        ));
        return;
    };
    let table = match open_engine(flavour) {
        Ok(table) => table,
        Err(why) => {
            absence::tell(&why);
            return;
        }
    };
    let host = Host {
        size: size_of::<Host>(),
        enter_thread: guard::enter_thread,
        library_path: leak_c_string(library_path().as_os_str()),
        open_count,
        leave_thread: guard::leave_thread,
        names_changed,
        wake: lazy::wake_token,
        move_out: moves::move_out,
        step_out: guard::step_out,
        step_in: guard::step_in,
    };
    // The engine may keep the pointer, so the table lives as long as the process.
    let host: &'static Host = Box::leak(Box::new(host));
    if (table.init)(host, granted) != 1 {
        return;
    }
    // SAFETY: after `init` returned 1, the engine's prefix is a C string for the process's life.
    let prefix = unsafe { CStr::from_ptr((table.prefix)()) }.to_bytes().to_vec();
    aliases::set(aliases_of(&table));
    activate(table, prefix);
}

fn aliases_of(table: &Engine) -> Vec<Alias> {
    let alias = |index| {
        let mut place = std::ptr::null();
        let name = (table.alias)(index, &raw mut place);
        // SAFETY: with a name that is not null, both are C strings.
        (!name.is_null()).then(|| unsafe {
            let bytes = |text| CStr::from_ptr(text).to_bytes().to_vec();
            Alias { name: bytes(name), place: bytes(place) }
        })
    };
    (0..).map_while(alias).collect()
}

fn activate(table: Engine, prefix: Vec<u8>) {
    let address = (table.address)();
    if address.is_null() {
        child::disown();
    } else {
        // SAFETY: not null, so a C string for the process's life.
        child::adopt(unsafe { CStr::from_ptr(address) }, &prefix);
    }
    take_over();
    ending::prepare();
    hand::prepare();
    ACTIVE.store(Box::into_raw(Box::new(Active { table, prefix, own: true })), Ordering::Release);
    // The rank that has started this process, if one has, may see other names.
    memory::forget();
    signals::adopt_all();
}

/// A rank has started this process.
pub(crate) fn follow() {
    take_over();
    set_active(child::active());
}

/// The rank that started this process has gone.
pub(crate) fn forsake() {
    set_active(None);
}

fn set_active(active: Option<&'static Active>) {
    let pointer =
        active.map_or(std::ptr::null_mut(), |active| std::ptr::from_ref(active).cast_mut());
    ACTIVE.store(pointer, Ordering::Release);
}

/// The hooks are to work for this process, and for what it forks.
fn take_over() {
    static HANDLERS: Once = Once::new();
    // SAFETY: getpid has no preconditions.
    OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    HANDLERS.call_once(|| {
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    });
}

/// `openmpi` or `mpich`, from the text of MPI_Get_library_version.
fn flavour_of(version: &str) -> Option<&'static str> {
    if version.starts_with("Open MPI") {
        Some("openmpi")
    } else if version.contains("MPICH") {
        Some("mpich")
    } else {
        None
    }
}

/// Absolute path of this library as the loader knows it, symlinks and relative parts resolved.
pub(crate) fn library_path() -> PathBuf {
    let name = real::object_info(real::own_address()).map_or(PathBuf::new(), |info| {
        // SAFETY: the loader's name of a loaded object is a C string that stays.
        PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes()))
    });
    std::fs::canonicalize(&name).unwrap_or(name)
}

/// The library that the program itself is linked with, else `<directory of the shim>/scr/<flavour>/
/// libscr.so`: calls of SCR and the shim come to one session.
fn open_engine(flavour: &str) -> Result<Engine, String> {
    if let Some(linked) = linked_engine() {
        return linked;
    }
    let shim = library_path();
    let place = shim.parent().unwrap_or(Path::new("/")).join("scr").join(flavour);
    let file = place.join("libscr.so");
    if !file.exists() {
        return Err(format!(
            "the engine {} is missing (expected beside {})",
            file.display(),
            shim.display()
        ));
    }
    let name = CString::new(file.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the engine is our own library; its initialisers do nothing but Rust's.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(format!("the engine {} cannot be loaded: {}", file.display(), loader_error()));
    }
    // SAFETY: the handle is live, the name a C string.
    let entry = unsafe { libc::dlsym(handle, ENTRY.as_ptr()) };
    match NonZeroUsize::new(entry as usize) {
        Some(entry) => table_of(handle, entry, &file),
        None => Err(format!("{} is not an engine of SCR", file.display())),
    }
}

/// The engine that the program has loaded, if it has one.
fn linked_engine() -> Option<Result<Engine, String>> {
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
fn table_of(handle: *mut c_void, entry: NonZeroUsize, file: &Path) -> Result<Engine, String> {
    if !same_mpi(handle) {
        return Err(format!(
            "the engine {} is linked with another MPI library than the program",
            file.display()
        ));
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
            return Err(format!(
                "the engine {} and {} are of different versions",
                file.display(),
                library_path().display()
            ));
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

fn leak_c_string(text: &OsStr) -> *const c_char {
    CString::new(text.as_bytes()).unwrap_or_default().into_raw()
}

/// What the child writes passes no hook of this process.
unsafe extern "C" fn before_fork() {
    lazy::before_fork();
}

unsafe extern "C" fn after_fork() {
    lazy::after_fork();
}

/// The engine's threads do not exist in a child: it asks the rank from here. It must not touch a
/// lock that it had before: another thread may have held it, or parking_lot's own, at the fork.
unsafe extern "C" fn in_child() {
    let Some(engine) = active() else { return };
    open_files::forget_in_child();
    listing::forget_in_child();
    lazy::in_child();
    memory::forget();
    guard::enter_thread();
    (engine.table.note)(event::FORKED_CHILD, std::ptr::null());
    guard::leave_thread();
    // SAFETY: getpid has no preconditions.
    OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    set_active(child::active().filter(|_| lock::forked()));
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
