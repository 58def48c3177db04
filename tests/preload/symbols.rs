//! The families of libc functions that take a path, end a descriptor or can fail for want of space:
//! every alias that this libc has is exported by the shim.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::programs::succeeded;
use crate::shim::library;

/// One family a line; `xattr`, `aio` and special files included.
const FAMILIES: &str = "
    open open64 __open __open64 __open_2 __open64_2 openat openat64 __openat_2 __openat64_2
    creat creat64
    stat stat64 lstat lstat64 fstatat fstatat64 statx
    __xstat __xstat64 __lxstat __lxstat64 __fxstatat __fxstatat64
    close __close close_range closefrom fclose _IO_fclose fcloseall
    fopen fopen64 _IO_fopen freopen freopen64 fdopen _IO_fdopen
    dup dup2 __dup2 dup3 fcntl fcntl64 __fcntl
    unlink unlinkat remove rmdir mkdir mkdirat rename renameat renameat2
    mknod mknodat __xmknod __xmknodat mkfifo mkfifoat
    link linkat symlink symlinkat
    readlink readlinkat __readlink_chk __readlinkat_chk
    realpath __realpath_chk canonicalize_file_name
    access faccessat euidaccess eaccess
    opendir fdopendir readdir readdir64 readdir_r readdir64_r closedir
    rewinddir telldir seekdir scandir scandir64 scandirat scandirat64 glob glob64
    nftw nftw64 ftw ftw64
    truncate truncate64 ftruncate ftruncate64
    lseek lseek64 fstat fstat64 __fxstat __fxstat64 flock lockf lockf64
    chmod lchmod fchmodat chown lchown fchownat
    utime utimes lutimes futimesat utimensat
    getxattr lgetxattr listxattr llistxattr setxattr lsetxattr removexattr lremovexattr
    statfs statfs64 __statfs statvfs statvfs64
    write __write pwrite pwrite64 __pwrite64 writev pwritev pwritev64 pwritev2 pwritev64v2
    sendfile sendfile64 copy_file_range splice fallocate fallocate64
    posix_fallocate posix_fallocate64 fsync fdatasync
    aio_error aio_error64 aio_return aio_return64 aio_read aio_read64
    read __read __read_chk pread pread64 __pread64 __pread_chk __pread64_chk readv preadv preadv64
    preadv2 preadv64v2
    dprintf vdprintf __dprintf_chk __vdprintf_chk
    mmap mmap64 munmap mremap msync
    chdir fchdir pathconf ftok inotify_add_watch name_to_handle_at ioctl
    _exit _Exit posix_spawn posix_spawnp posix_spawn_file_actions_addopen
    posix_spawn_file_actions_init posix_spawn_file_actions_destroy
    execve execvpe execv execvp popen system pclose
    wait __wait waitpid __waitpid wait3 wait4 waitid
    sigaction __sigaction signal bsd_signal ssignal sysv_signal __sysv_signal sigset
";

/// On a descriptor, which leads to the right file already; or a file of no name; or another
/// process, which has a shim of its own. Nothing is to be done, or README says what is not.
const LEFT_ALONE: &str = "
    fstatfs fstatvfs fchmod fchown futimes futimens
    fgetxattr fsetxattr
    mkstemp mkostemp mkdtemp tmpfile getcwd getdents64 fts_open fts_read
    vfork
";

fn names(list: &str) -> BTreeSet<String> {
    list.split_whitespace().map(str::to_owned).collect()
}

fn exported(library: &Path) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    let text = succeeded(&nm.args(["-D", "--defined-only"]).arg(library).output().unwrap());
    let last = |line: &str| line.split_whitespace().last().map(str::to_owned);
    let plain = |name: String| name.split('@').next().unwrap_or_default().to_owned();
    text.lines().filter_map(last).map(plain).collect()
}

fn libc_path() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().filter_map(|line| line.split_whitespace().last());
    libc.into_iter().find(|path| path.contains("/libc.so")).unwrap().to_owned()
}

#[test]
fn every_alias_of_every_family_is_exported() {
    let (ours, libc) = (exported(&library()), exported(Path::new(&libc_path())));
    let wanted = names(FAMILIES);
    assert!(wanted.intersection(&libc).count() > 100, "this libc is unlike any known one");
    let missing: Vec<_> = wanted.difference(&ours).filter(|name| libc.contains(*name)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let by_mistake: Vec<_> = names(LEFT_ALONE).intersection(&ours).cloned().collect();
    assert!(by_mistake.is_empty(), "exported, but listed as left alone: {by_mistake:?}");
}

#[test]
fn no_mpi_and_no_engine_is_needed() {
    let mut readelf = Command::new("readelf");
    let text = succeeded(&readelf.arg("-d").arg(library()).output().unwrap());
    let needed: Vec<_> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.iter().any(|line| line.contains("[libc.so")), "{text}");
    let wrong = ["libmpi", "libmpich", "libopen-", "libscr"];
    let found = |line: &&&str| wrong.iter().any(|name| line.contains(&format!("[{name}")));
    assert_eq!(needed.iter().find(found), None);
}
