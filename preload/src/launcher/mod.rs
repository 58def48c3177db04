//! In a launcher (mpirun, mpiexec, srun, ...): sees to it that the ranks get the shim and our
//! variables, on other nodes too, and gives the launch a number. Runs in the constructor. Where the
//! command line has to change, the launcher is executed again, once: the process number stays.

mod at_exit;
mod carried;
mod hydra;
mod in_files;
mod open_mpi;
mod program;
mod slurm;
mod words;

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use scr_abi::messages;

use words::{preload_with, set, set_os};

use crate::base::message;
use crate::engine::absence::NONCE;
use crate::{child, engine};

/// [`identity`] of the process that chose the number, and the program that it ran when it did.
const LAUNCHER: &str = "SCR_LAUNCHER";
const PRELOAD: &str = "LD_PRELOAD";

const LAUNCHERS: [&str; 12] = [
    "mpirun",
    "mpiexec",
    "orterun",
    "oshrun",
    "mpirun.openmpi",
    "mpiexec.openmpi",
    "mpirun.mpich",
    "mpiexec.mpich",
    "mpiexec.hydra",
    "srun",
    "aprun",
    "prterun",
];

pub(crate) fn prepare() {
    unpack();
    if std::env::var_os("SCR_ENABLE").is_some_and(|value| value == "0") || !is_launcher() {
        return;
    }
    child::leave();
    let own = identity(std::process::id());
    let own_program = own_program();
    let chosen_by = std::env::var_os(LAUNCHER).unwrap_or_default();
    let (chosen_by, its_program) = split_at_space(&chosen_by);
    if *chosen_by == *own && its_program == own_program {
        at_exit::arrange();
        return;
    }
    // Open MPI 5's mpirun becomes prterun: its launch goes on, what prterun needs is to be done.
    let goes_on = *chosen_by == *own;
    let library = engine::open::library_path().into_os_string();
    let preload = preload_with(&std::env::var_os(PRELOAD).unwrap_or_default(), &library);
    set(PRELOAD, &preload);
    // srun, started by mpirun to reach the nodes, is part of the same launch.
    let begins = !goes_on && *chosen_by != *identity(std::os::unix::process::parent_id());
    if begins {
        set(NONCE, OsStr::new(&random_number()));
        make_absolute("SCR_CONF_FILE");
    }
    if begins || goes_on {
        let mut mark = OsString::from(format!("{own} "));
        mark.push(own_program);
        set(LAUNCHER, &mark);
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    warn_of_static(&arguments);
    if let Some(changed) = carry(preload, library, &arguments) {
        execute_again(&changed);
    }
    if begins || goes_on {
        at_exit::arrange();
    }
}

fn split_at_space(text: &OsStr) -> (&OsStr, &OsStr) {
    let bytes = text.as_bytes();
    let end = bytes.iter().position(|&byte| byte == b' ').unwrap_or(bytes.len());
    let behind = bytes.get(end + 1..).unwrap_or_default();
    (OsStr::from_bytes(&bytes[..end]), OsStr::from_bytes(behind))
}

fn own_program() -> PathBuf {
    std::fs::read_link("/proc/self/exe").unwrap_or_default()
}

/// Number and start time: a process keeps them when it executes something else.
fn identity(process: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything; the start time is the 20th field behind it.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    format!("{process}-{}", behind.split_whitespace().nth(19).unwrap_or("0"))
}

/// A launcher on another node has sent them along.
fn unpack() {
    if let Some(word) = std::env::var_os(carried::NAME) {
        for (name, value) in carried::decode(&word) {
            set_os(&name, &value);
        }
        // SAFETY: the constructor runs before there is a second thread.
        unsafe { std::env::remove_var(carried::NAME) };
    }
}

fn is_launcher() -> bool {
    let named = |name: &OsStr| LAUNCHERS.iter().any(|launcher| name == *launcher);
    let executable = own_program();
    if executable.file_name().is_some_and(named) {
        return true;
    }
    let first = std::env::args_os().next().unwrap_or_default();
    // A script called mpirun is run by a shell; the launcher that it starts in the end counts.
    Path::new(&first).file_name().is_some_and(named)
        && executable.file_name().is_some_and(|name| !name.as_bytes().ends_with(b"sh"))
}

fn random_number() -> String {
    let mut bytes = [0_u8; 16];
    // By its number: C libraries before 2.25 have no name for it.
    // SAFETY: the buffer is writable for its length.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0_u32) };
    if got != 16 {
        let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        bytes = (clock ^ (u128::from(std::process::id()) << 96)).to_ne_bytes();
    }
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

/// Ranks may have another working directory.
fn make_absolute(name: &str) {
    if let Some(value) = std::env::var_os(name)
        && !value.is_empty()
        && let Ok(path) = std::path::absolute(&value)
    {
        set(name, path.as_os_str());
    }
}

fn warn_of_static(arguments: &[OsString]) {
    let search = std::env::var_os("PATH").unwrap_or_default();
    if let Some(program) = program::static_program(arguments, &search) {
        message::say(
            messages::PROGRAM_STATIC,
            &format!(
                "{} is statically linked: it runs without checkpoint caching, since LD_PRELOAD has \
                 no effect on it. Link it dynamically",
                program.display()
            ),
        );
    }
}

fn carry(preload: OsString, library: OsString, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let ours: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| {
            name.as_bytes().starts_with(b"SCR_") && name != carried::NAME && name != LAUNCHER
        })
        .collect();
    if let Some(names) = open_mpi::ParameterNames::of_this_launcher() {
        let cargo = open_mpi::RankEnvironment { names, preload, library, variables: ours };
        return cargo.carry(arguments);
    }
    if has_name("srun") {
        let names = std::iter::once(PRELOAD.into()).chain(ours.into_iter().map(|(name, _)| name));
        let names: Vec<OsString> = names.collect();
        let limit = std::env::var_os(slurm::LIMIT);
        if let Some(list) = limit.and_then(|list| slurm::extended(&list, &names, &library)) {
            set(slurm::LIMIT, &list);
        }
        let search = std::env::var_os("PATH").unwrap_or_default();
        return slurm::rewrite(arguments, program::index(arguments, &search), &names, &library);
    }
    if !is_hydra() {
        return None;
    }
    let mut variables = vec![(PRELOAD.into(), preload)];
    variables.extend(ours);
    hydra::rewrite(arguments, &variables, &library, std::env::var_os(hydra::LIMIT).as_deref())
}

fn has_name(name: &str) -> bool {
    let executable = own_program();
    executable.file_name().is_some_and(|own| own == name)
}

/// Whatever else is called mpiexec takes hydra's options or none of their names. Open MPI 5's
/// become the prterun beside them, which would complain.
fn is_hydra() -> bool {
    let executable = own_program();
    has_name("mpiexec.hydra")
        || executable.file_name().is_some_and(|name| name.as_bytes().starts_with(b"mpi"))
            && !executable.with_file_name("prterun").exists()
}

fn execute_again(arguments: &[OsString]) {
    let words: Vec<CString> =
        arguments.iter().filter_map(|word| CString::new(word.as_bytes()).ok()).collect();
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: a null-terminated array of C strings. On failure the launcher goes on as it is, and
    // the ranks' launch check finds who is missing.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), pointers.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself_from_its_parent() {
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert_eq!(identity(own), identity(own));
        assert_ne!(identity(own), identity(parent));
        assert!(!identity(own).ends_with("-0"));
    }

    #[test]
    fn launch_numbers_differ() {
        assert_ne!(random_number(), random_number());
        assert_eq!(random_number().len(), 32);
    }
}
