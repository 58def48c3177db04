//! The few system calls that make a node: namespaces, mounts, a hostname, and a first process.
//!
//! The only file of this command with `unsafe`. Everything here acts on the calling process or on a
//! command that it is about to start, and returns the system's answer.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The namespaces of a node besides the one for processes.
const NODE_NAMESPACES: libc::c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;

fn answer(code: libc::c_int) -> io::Result<()> {
    if code == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Returns true for the super-user, also that of a user namespace: he may make all of these
/// namespaces.
pub fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Makes this process the super-user of a user namespace of its own. It must have one thread only.
pub fn own_users() -> io::Result<()> {
    own_users_with(0, Some((0, 0)))
}

/// Gives this process, which must have one thread only, mounts of its own. Who is not root needs a
/// user namespace for that, in which he stays who he is.
pub fn own_mounts() -> io::Result<()> {
    if !is_root() {
        return own_users_with(libc::CLONE_NEWNS, None);
    }
    // SAFETY: unshare gets a number.
    answer(unsafe { libc::unshare(libc::CLONE_NEWNS) })
}

/// A user namespace and others in which this process is user and group `inside`, or who it was.
fn own_users_with(others: libc::c_int, inside: Option<(u32, u32)>) -> io::Result<()> {
    // SAFETY: geteuid and getegid take nothing and cannot fail; unshare gets a number.
    let (user, group, made) =
        unsafe { (libc::geteuid(), libc::getegid(), libc::unshare(libc::CLONE_NEWUSER | others)) };
    answer(made)?;
    let (as_user, as_group) = inside.unwrap_or((user, group));
    // Whoever maps his own group only has to do without setgroups.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{as_user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{as_group} {group} 1"))
}

/// Moves this process, which must have one thread only, to the user namespace of another one, whose
/// `/proc` directory is `process`.
pub fn join_users(process: &Path) -> io::Result<()> {
    join(&File::open(process.join("ns/user"))?, libc::CLONE_NEWUSER)
}

/// Makes the next child of this process the first one of a new process namespace.
pub fn next_child_is_first() -> io::Result<()> {
    // SAFETY: changes only where later children live; no memory is passed.
    answer(unsafe { libc::unshare(libc::CLONE_NEWPID) })
}

/// Undoes [`next_child_is_first`]: later children live where this process lives.
pub fn children_live_here() -> io::Result<()> {
    join(&File::open("/proc/self/ns/pid")?, libc::CLONE_NEWPID)
}

fn join(namespace: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for the whole call.
    answer(unsafe { libc::setns(namespace.as_raw_fd(), kind) })
}

/// Makes `command` a session of its own in fresh mount, network, host name and IPC namespaces.
pub fn in_fresh_namespaces(command: &mut Command) {
    // SAFETY: between fork and exec only two async-signal-safe system calls are made.
    unsafe {
        command.pre_exec(|| {
            answer(libc::setsid())?;
            answer(libc::unshare(NODE_NAMESPACES))
        });
    }
}

/// Makes `command` inherit the descriptor, which is otherwise closed at exec.
pub fn inherit(command: &mut Command, descriptor: RawFd) {
    // SAFETY: fcntl on a number; a closed one gives an error, which is returned.
    unsafe {
        command.pre_exec(move || answer(libc::fcntl(descriptor, libc::F_SETFD, 0)));
    }
}

/// Makes the system send SIGTERM to `command` when the thread that starts it ends.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: prctl with a constant option and a signal number, async-signal-safe.
    unsafe {
        command.pre_exec(|| answer(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM)));
    }
}

pub struct Namespaces {
    pid: File,
    others: Vec<(File, libc::c_int)>,
}

impl Namespaces {
    /// Opens those of the process whose `/proc` directory is `process`.
    pub fn of(process: &Path) -> io::Result<Self> {
        let open = |name: &str| File::open(process.join("ns").join(name));
        // The mount namespace comes last: /proc may be another one behind it.
        let others = vec![
            (open("uts")?, libc::CLONE_NEWUTS),
            (open("ipc")?, libc::CLONE_NEWIPC),
            (open("net")?, libc::CLONE_NEWNET),
            (open("mnt")?, libc::CLONE_NEWNS),
        ];
        Ok(Namespaces { pid: open("pid")?, others })
    }

    /// Starts `command` inside, in `directory` as seen from inside (its root when there is none).
    /// From here on *all* children of the calling process live there.
    pub fn enter(self, command: &mut Command, directory: &Path) -> io::Result<()> {
        join(&self.pid, libc::CLONE_NEWPID)?;
        let directory = c_string(directory.as_os_str().as_bytes())?;
        let others = self.others;
        // SAFETY: setns and chdir are plain system calls on descriptors and a string that the
        // closure owns.
        unsafe {
            command.pre_exec(move || {
                for (namespace, kind) in &others {
                    join(namespace, *kind)?;
                }
                if libc::chdir(directory.as_ptr()) == -1 {
                    answer(libc::chdir(c"/".as_ptr()))?;
                }
                Ok(())
            });
        }
        Ok(())
    }
}

/// Starts `command` in the network namespace of process `pid`, and nowhere else.
pub fn in_network_of(command: &mut Command, pid: u32) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    // SAFETY: one system call on a descriptor that the closure owns.
    unsafe {
        command.pre_exec(move || join(&namespace, libc::CLONE_NEWNET));
    }
    Ok(())
}

pub enum Mount<'a> {
    /// A RAM disk with these options ("size=1g", or empty).
    Ram(&'a str),
    /// The process table of the caller's process namespace.
    Processes,
    /// Another file or directory.
    Bind(&'a Path),
    /// Directories in one, to be read only: those that it names, between colons, the first over the
    /// others.
    Overlay(&'a str),
    Move(&'a Path),
    /// Nothing new: from here on, what happens below the target is not seen outside.
    Private,
}

pub fn mount(what: &Mount, target: &Path) -> io::Result<()> {
    let none = PathBuf::from("none");
    let (source, kind, flags, data) = match what {
        Mount::Ram(options) => {
            (none.as_path(), "tmpfs", libc::MS_NOSUID | libc::MS_NODEV, *options)
        }
        Mount::Processes => (none.as_path(), "proc", 0, ""),
        Mount::Bind(source) => (*source, "", libc::MS_BIND | libc::MS_REC, ""),
        Mount::Overlay(_) => (none.as_path(), "overlay", libc::MS_NOSUID | libc::MS_NODEV, ""),
        Mount::Move(source) => (*source, "", libc::MS_MOVE, ""),
        Mount::Private => (none.as_path(), "", libc::MS_SLAVE | libc::MS_REC, ""),
    };
    let source = c_string(source.as_os_str().as_bytes())?;
    let target = c_string(target.as_os_str().as_bytes())?;
    let data = match what {
        Mount::Overlay(lower) => format!("lowerdir={lower}"),
        _ => data.to_owned(),
    };
    let (kind, data) = (c_string(kind.as_bytes())?, c_string(data.as_bytes())?);
    // SAFETY: four NUL-terminated strings that outlive the call.
    answer(unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast())
    })
}

/// Keeps this process and those that it starts from writing to what is mounted on `target` and
/// below it, as [`own_mounts`] has let it.
pub fn only_to_be_read(target: &Path) -> io::Result<()> {
    let target = c_string(target.as_os_str().as_bytes())?;
    let change = [libc::MOUNT_ATTR_RDONLY, 0, 0, 0];
    // SAFETY: a NUL-terminated string and four numbers, whose size is told; all outlive the call.
    let code = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::AT_RECURSIVE,
            change.as_ptr(),
            size_of_val(&change),
        )
    };
    answer(code as libc::c_int)
}

/// Takes the mount on `target` away, for this process's namespace.
pub fn unmount(target: &Path) -> io::Result<()> {
    let target = c_string(target.as_os_str().as_bytes())?;
    // SAFETY: a NUL-terminated string that outlives the call.
    answer(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) })
}

pub fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length describe the string.
    answer(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
}

/// Opens a descriptor that becomes readable when process `pid` ends.
pub fn watch(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: a system call with two numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = RawFd::try_from(descriptor)
        .map_err(|_| io::Error::other("pidfd_open returned an impossible number"))?;
    // SAFETY: fresh from the system, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Blocks until the descriptor of [`watch`] reports the end of its process.
pub fn wait_for_end(descriptor: RawFd) {
    let mut entry = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, and its count.
    while unsafe { libc::poll(&raw mut entry, 1, -1) } == -1
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Reaps children for ever, in the first process of a namespace; `ended` hears of each.
///
/// Children that ended before the call are seen too. SIGCHLD must be blocked in all threads
/// ([`block_child_signal`]).
pub fn reap_for_ever(mut ended: impl FnMut(u32)) -> ! {
    loop {
        loop {
            let mut status = 0;
            // SAFETY: the status is ours.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            match u32::try_from(pid) {
                Ok(pid) if pid > 0 => ended(pid),
                _ => break,
            }
        }
        // SAFETY: a signal set on the stack, filled by the library.
        unsafe {
            let mut signals = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            libc::sigaddset(&raw mut signals, libc::SIGCHLD);
            libc::sigwaitinfo(&raw const signals, std::ptr::null_mut());
        }
    }
}

/// Blocks SIGCHLD in the calling thread and those that it starts later, so that
/// [`reap_for_ever`] can wait for it without a race.
pub fn block_child_signal() {
    // SAFETY: a signal set on the stack, filled by the library.
    unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
    }
}
