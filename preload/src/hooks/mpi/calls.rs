//! The MPI entry points that matter. `MPI_X` forwards to the next `MPI_X`, `PMPI_X` to the next
//! `PMPI_X`, so that preloaded tools see what they would see without us. Arguments travel as
//! register-wide integers: no MPI header, no difference between MPIs. What MPI calls while a hooked
//! call is under way does not count.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use scr_abi::{Engine, event, file_mark, messages, open_mode, sync_kind};

use crate::base::thread::{Caller, MpiDepth, MpiFiles, Named};
use crate::engine::{self, ActiveEngine, absence};
use crate::fd::reuse;
use crate::hooks::files::unseen_mappings;
use crate::hooks::mpi::ompio::EachForItself;
use crate::hooks::mpi::{hints::Hints, opened};
use crate::signal::guard;
use crate::{
    base::message, life::ending, life::start, path::canonical, path::memory, signal::handlers,
};

/// This is MPICH's value; elsewhere it is merely nonzero.
const ERR_OTHER: c_int = 15;

static STARTED: AtomicBool = AtomicBool::new(false);

/// Exports one MPI function under both names. `before` runs when the program calls it, not when MPI
/// calls itself; its arguments are an array of register-wide integers.
macro_rules! mpi {
    ($( ($c:ident, $p:ident, $($arg:ident)*) => $before:expr; )+) => {
        $(
            $crate::hooks::mpi::calls::mpi_one! { $c ($($arg)*) => $before }
            $crate::hooks::mpi::calls::mpi_one! { $p ($($arg)*) => $before }
        )+
    };
}

macro_rules! mpi_one {
    ($name:ident ($($arg:ident)*) => $before:expr) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C-unwind" fn $name($($arg: usize),*) -> core::ffi::c_int {
            const NAME: &str = concat!(stringify!($name), "\0");
            static SYMBOL: $crate::base::real::Symbol =
                $crate::base::real::Symbol::new($crate::hooks::mpi::calls::c_string(NAME));
            let Some(address) = SYMBOL.next_or_private() else {
                return $crate::hooks::mpi::calls::missing(NAME);
            };
            // SAFETY: the next definition of the function of this name takes these arguments, each
            // passed in a register or an 8-byte slot whatever its C type, and returns an int.
            unsafe {
                let real = core::mem::transmute::<
                    usize,
                    unsafe extern "C-unwind" fn(
                        $($crate::hooks::mpi::calls::mpi_one!(@word $arg)),*
                    ) -> core::ffi::c_int,
                >(address.get());
                const KIND: scr_abi::accesses::Within =
                    $crate::fd::logged::WriteCall::kind(NAME);
                $crate::hooks::mpi::calls::around([$($arg),*], $before, |[$($arg),*]| {
                    let _writes = (KIND as u8 > 0)
                        .then(|| $crate::fd::logged::WriteCall::enter(KIND));
                    real($($arg),*)
                })
            }
        }
    };
    (@word $arg:ident) => { usize };
}

pub(super) use {mpi, mpi_one};

pub(super) enum Role {
    Init,
    Session,
    OfSession,
    Finalize,
    /// The call synchronises a communicator, which is this argument.
    Sync(usize, c_int),
    Note(c_int),
    /// The arguments are the communicator, the name, mode, info, and a place for the handle.
    FileOpen,
    /// The first argument is a file's handle.
    FileSync,
    /// The first argument is a file's handle. In some MPIs each rank cuts the file itself, and all
    /// have done so when the call returns: what the program writes then comes after it.
    FileSize,
    /// The argument is where the handle is.
    FileClose,
    File,
    /// What MPI calls inside of any other call does not count.
    Depth,
}

mpi! {
    (MPI_Init, PMPI_Init, argc argv) => Role::Init;
    (MPI_Init_thread, PMPI_Init_thread, argc argv required provided) => Role::Init;
    (MPI_Session_init, PMPI_Session_init, info handler session) => Role::Session;
    (MPI_Comm_create_from_group, PMPI_Comm_create_from_group,
        group tag info handler new) => Role::OfSession;
    (MPI_Finalize, PMPI_Finalize,) => Role::Finalize;
    // The other ranks are killed at whatever they do: nothing can be agreed on any more, and one
    // rank's part of a checkpoint, if published, would be in a restart's way. What is sealed stays.
    (MPI_Abort, PMPI_Abort, comm code) => Role::Depth;
    (MPI_Barrier, PMPI_Barrier, comm) => Role::Sync(0, sync_kind::BARRIER);
    (MPI_Allreduce, PMPI_Allreduce, send receive count datatype op comm)
        => Role::Sync(5, sync_kind::COLLECTIVE);
    (MPI_Alltoall, PMPI_Alltoall, send scount stype receive rcount rtype comm)
        => Role::Sync(6, sync_kind::COLLECTIVE);
    (MPI_Alltoallv, PMPI_Alltoallv, send scounts sdispls stype receive rcounts rdispls rtype comm)
        => Role::Sync(8, sync_kind::COLLECTIVE);
    (MPI_Alltoallw, PMPI_Alltoallw, send scounts sdispls stypes receive rcounts rdispls rtypes comm)
        => Role::Sync(8, sync_kind::COLLECTIVE);
    (MPI_Allgather, PMPI_Allgather, send scount stype receive rcount rtype comm)
        => Role::Sync(6, sync_kind::COLLECTIVE);
    (MPI_Allgatherv, PMPI_Allgatherv, send scount stype receive rcounts displs rtype comm)
        => Role::Sync(7, sync_kind::COLLECTIVE);
    (MPI_Reduce_scatter, PMPI_Reduce_scatter,
        send receive counts datatype op comm) => Role::Sync(5, sync_kind::COLLECTIVE);
    (MPI_Reduce_scatter_block, PMPI_Reduce_scatter_block,
        send receive count datatype op comm) => Role::Sync(5, sync_kind::COLLECTIVE);
    (MPI_Comm_dup, PMPI_Comm_dup, comm new) => Role::Sync(0, sync_kind::CONSTRUCTOR);
    (MPI_Comm_dup_with_info, PMPI_Comm_dup_with_info, comm info new)
        => Role::Sync(0, sync_kind::CONSTRUCTOR);
    (MPI_Comm_split, PMPI_Comm_split, comm color key new) => Role::Sync(0, sync_kind::CONSTRUCTOR);
    (MPI_Comm_split_type, PMPI_Comm_split_type, comm kind key info new)
        => Role::Sync(0, sync_kind::CONSTRUCTOR);
    (MPI_Comm_create, PMPI_Comm_create, comm group new) => Role::Sync(0, sync_kind::CONSTRUCTOR);
    (MPI_Cart_create, PMPI_Cart_create, comm ndims dims periods reorder new)
        => Role::Sync(0, sync_kind::CONSTRUCTOR);
    (MPI_Comm_spawn, PMPI_Comm_spawn, command argv maxprocs info root comm intercomm errcodes)
        => Role::Note(event::DYNAMIC_PROCESSES);
    (MPI_Comm_spawn_multiple, PMPI_Comm_spawn_multiple,
        count commands argvs maxprocs infos root comm intercomm errcodes)
        => Role::Note(event::DYNAMIC_PROCESSES);
    (MPI_Comm_connect, PMPI_Comm_connect, port info root comm new)
        => Role::Note(event::DYNAMIC_PROCESSES);
    (MPI_Comm_accept, PMPI_Comm_accept, port info root comm new)
        => Role::Note(event::DYNAMIC_PROCESSES);
    (MPI_Comm_join, PMPI_Comm_join, fd new) => Role::Note(event::DYNAMIC_PROCESSES);
    (MPI_Intercomm_merge, PMPI_Intercomm_merge, intercomm high new)
        => Role::Note(event::DYNAMIC_PROCESSES);
}

pub(super) const fn c_string(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("name with NUL"),
    }
}

pub(super) fn missing(symbol: &str) -> c_int {
    message::complain(
        messages::MPI_FUNCTION_MISSING,
        &format!("{} was called, but no MPI has it", symbol.trim_end_matches('\0')),
    );
    ERR_OTHER
}

/// Plays `role` only if the program itself made the call.
pub(super) fn around<const N: usize>(
    mut arguments: [usize; N],
    role: Role,
    call: impl FnOnce([usize; N]) -> c_int,
) -> c_int {
    let Some(caller) = Caller::of_mpi() else { return call(arguments) };
    reuse::settle(); // other ranks may hear of the file by this call
    let mut synchronises = matches!(role, Role::Sync(..));
    let (mut of_mpi_io, mut told, mut each, mut returns) = (None, None, None, None);
    match role {
        Role::Init => return initialise(|| call(arguments)),
        Role::Session => return begin_session(|| call(arguments)),
        Role::Finalize => return finalise(|| call(arguments)),
        Role::OfSession => drop(guard::work(absence::session_computes)),
        _ if engine::active().is_none() => return call(arguments),
        Role::Sync(comm, kind) => synchronise(arguments[comm], kind),
        Role::Note(what) => note(what, None),
        Role::FileOpen => {
            let [comm, name, mode] = [0, 1, 2].map(|at| arguments[at]);
            synchronise(comm, sync_kind::FILE_OPEN);
            let (named, hints) = note_file_open(comm, name, mode).unzip();
            of_mpi_io = Some(MpiFiles::other_than(named));
            told = Hints::of(hints.unwrap_or(0), comm, arguments[3]);
            arguments[3] = told.as_ref().map_or(arguments[3], Hints::info);
            each = told.as_ref().and_then(Hints::each_for_itself);
            synchronises = true;
        }
        Role::FileSync | Role::FileSize | Role::FileClose | Role::File => {
            let file = match role {
                Role::FileSync | Role::FileSize => opened::file_of(arguments[0]),
                Role::FileClose => opened::closes(arguments[0]),
                _ => None,
            };
            let mark = file.and_then(|file| file.mark);
            each = file.and_then(|file| file.each);
            mark.into_iter().for_each(|mark| file_call(mark, matches!(role, Role::FileClose)));
            synchronises = mark.is_some();
            returns = mark.filter(|_| matches!(role, Role::FileSize));
            of_mpi_io = Some(MpiFiles::other_than(None));
        }
        Role::Depth => {}
    }
    let depth = caller.enter();
    let chosen = each.map(EachForItself::choose);
    let result = call(arguments);
    told.iter().filter(|_| result == 0).for_each(Hints::is_open);
    drop((of_mpi_io, told, chosen, depth));
    returns.into_iter().for_each(|mark| file_call(mark, false));
    if matches!(role, Role::FileOpen) {
        let mark = mark_of_opened(arguments[0], result);
        opened::note(arguments[4], mark, each.filter(|_| result == 0));
    }
    if synchronises {
        memory::forget(); // what other ranks did to names before their call counts from here on
    }
    result
}

fn synchronise(comm: usize, kind: c_int) {
    let Some(active) = engine::active() else { return };
    let counted = kind == sync_kind::COLLECTIVE || kind == sync_kind::BARRIER;
    if !counted || !active.passes(comm, kind) {
        agree(active, |table| (table.sync)(comm, kind));
    }
}

/// Several ranks are about to make a blocking collective call on a file with that mark.
fn file_call(mark: c_int, closes: bool) {
    let Some(active) = engine::active() else { return };
    match mark {
        file_mark::OF_WORLD => synchronise(active.idle.world, sync_kind::BARRIER),
        mark => _ = agree(active, |table| (table.file_call)(mark, c_int::from(closes))),
    }
}

/// Tells the engine that MPI_File_open has returned: if all ranks took part, all hear of it.
fn mark_of_opened(comm: usize, result: c_int) -> Option<c_int> {
    let opened = c_int::from(result == 0);
    let mark = agree(engine::active()?, |table| (table.file_opened)(comm, opened))?;
    (opened != 0 && mark != file_mark::ALONE).then_some(mark)
}

/// Has the engine do what waits for other ranks; `None`: the thread is inside our own work.
fn agree<T>(active: &ActiveEngine, work: impl FnOnce(&Engine) -> T) -> Option<T> {
    handlers::in_no_handler();
    let _depth = MpiDepth::enter();
    // Not `guard::work`: an agreement waits for other ranks, and MPI may have to be cancelled.
    if guard::inside() {
        return None;
    }
    let saved = guard::errno();
    guard::enter_thread();
    unseen_mappings::sweep(&active.table);
    let result = work(&active.table);
    // Dropping the depth restores both marks.
    guard::set_errno(saved);
    Some(result)
}

fn note(what: c_int, path: Option<&CStr>) {
    if let Some(active) = engine::active() {
        let path = path.map_or(std::ptr::null(), CStr::as_ptr);
        let _depth = MpiDepth::enter();
        let _: Option<()> = guard::work(|| (active.table.note)(what, path));
    }
}

/// Tells, too, what [`Engine::hints`] says.
fn note_file_open(comm: usize, name: usize, mode: usize) -> Option<(Named, c_int)> {
    let active = engine::active()?;
    let name = name as *const c_char;
    if name.is_null() {
        return None;
    }
    // SAFETY: the program passes a C string as the file's name.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let path = guard::work(|| {
        // ROMIO takes a file system's name and a colon before the path.
        let bare = name.iter().position(|&byte| byte == b':').map_or(name, |at| &name[at + 1..]);
        let find = |name| canonical::locate(&active.prefix, libc::AT_FDCWD, name);
        find(name).or_else(|| find(bare))
    })??;
    let mode = mode as c_int & (open_mode::CREATE | open_mode::READ_ONLY);
    let _depth = MpiDepth::enter();
    let asked = guard::work(|| {
        let store = (active.table.file_open)(comm, path.as_ptr(), mode);
        (store, (active.table.hints)(comm, path.as_ptr()))
    });
    let (store, hints) = asked.unzip();
    let store = store.filter(|store| !store.is_null());
    // SAFETY: a C string of the engine, which stays.
    let store = store.map(|store| unsafe { CStr::from_ptr(store) });
    Some((Named::new(&path, store), hints.unwrap_or(0)))
}

fn initialise(call: impl FnOnce() -> c_int) -> c_int {
    let _depth = MpiDepth::enter();
    let result = call();
    if result == 0 && !guard::inside() && !STARTED.swap(true, Ordering::AcqRel) {
        let saved = guard::errno();
        guard::enter_thread();
        absence::mpi_begun();
        let started = std::panic::catch_unwind(|| {
            start::start();
            unseen_mappings::are_seen();
        });
        if started.is_err() {
            let text = "internal error at start; the program runs without checkpoint caching";
            message::complain(messages::SHIM_FAULT, text);
        }
        guard::set_errno(saved);
    }
    result
}

fn begin_session(call: impl FnOnce() -> c_int) -> c_int {
    let result = {
        let _depth = MpiDepth::enter();
        call()
    };
    if result == 0 && !STARTED.load(Ordering::Acquire) {
        let _: Option<()> = guard::work(|| absence::session_begun(at_the_end));
    }
    result
}

fn finalise(call: impl FnOnce() -> c_int) -> c_int {
    if let Some(active) = engine::active() {
        let _: Option<()> = guard::work(|| unseen_mappings::sweep(&active.table));
    }
    note(event::FINALIZE_BEGIN, None);
    let result = {
        let _depth = MpiDepth::enter();
        call()
    };
    ending::set_finalized();
    note(event::FINALIZE_END, None);
    result
}

extern "C" fn at_the_end() {
    let _: Option<()> = guard::work(absence::tell_of_session);
}
