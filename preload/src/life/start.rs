//! The start of the engine at MPI_Init, and what a fork means for it: here the parts of the shim
//! are wired together, so only the constructor and the hook of MPI_Init use this.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Once, OnceLock};

use scr_abi::{Engine, Host, event, messages};

use super::ending;
use crate::base::lock;
use crate::child;
use crate::engine::open::{library_path, open_engine};
use crate::engine::pointer::{self, ActiveEngine, active, set_active};
use crate::engine::{absence, watch};
use crate::fd::logged::parted;
use crate::fd::{lazy, moves, open_files};
use crate::path::aliases::{self, Alias};
use crate::path::{listing, memory, turns};
use crate::signal::{guard, handlers, stand_in};

/// The engine may keep the pointer, so this lives as long as the process.
static HOST: OnceLock<SharedHost> = OnceLock::new();

struct SharedHost(Host);

// SAFETY: functions that any thread may call, and a string that nobody changes.
unsafe impl Sync for SharedHost {}
// SAFETY: as above.
unsafe impl Send for SharedHost {}

extern "C" fn open_count(token: u64) -> c_int {
    c_int::try_from(open_files::writers_of(token)).unwrap_or(c_int::MAX)
}

extern "C" fn names_changed() {
    memory::forget();
}

/// Runs once, after the real MPI_Init, with both guards held. Collective inside the engine from its
/// launch check on.
pub(crate) fn start() {
    if std::env::var_os("SCR_ENABLE").is_some_and(|value| value == "0") {
        return;
    }
    if let Some(table) = watch::table() {
        // SAFETY: a C string for the process's life, since there is a table.
        let prefix = unsafe { CStr::from_ptr((table.prefix)()) }.to_bytes().to_vec();
        return activate(table, prefix);
    }
    let table = match open_engine() {
        Ok(table) => table,
        Err((id, why)) => return absence::tell(id, &why),
    };
    let refusal = (table.refusal)();
    if !refusal.is_null() {
        // SAFETY: a C string that stays.
        let why = unsafe { CStr::from_ptr(refusal) }.to_string_lossy();
        return absence::tell(messages::MPI_UNKNOWN, &why);
    }
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
    let SharedHost(host) = HOST.get_or_init(|| SharedHost(host));
    if (table.init)(host) != 1 {
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
    stand_in::prepare();
    let idle = (table.idle)();
    turns::follow((table.turns)());
    set_active(Some(Box::leak(Box::new(ActiveEngine { table, prefix, idle, own: true }))));
    // The rank that has started this process, if one has, may see other names.
    memory::forget();
    handlers::adopt_all();
}

/// Makes the hooks of a process that a rank has started ask that rank.
pub(crate) fn follow() {
    take_over();
    set_active(child::active());
}

fn take_over() {
    static STAND_INLERS: Once = Once::new();
    pointer::own();
    STAND_INLERS.call_once(|| {
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    });
}

fn leak_c_string(text: &OsStr) -> *const c_char {
    CString::new(text.as_bytes()).unwrap_or_default().into_raw()
}

unsafe extern "C" fn before_fork() {
    parted::leave_all();
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
    pointer::own();
    set_active(child::active().filter(|_| lock::forked()));
}
