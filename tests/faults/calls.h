/* The calls that `inject.c` can let fail, and where each has its files. */
#include <sys/syscall.h>

enum { ROOM = 1, CHANGE = 2, CREATE = 4, OPEN = 8, CLOSE = 16, LOCK = 32 };
enum { NO = -1, CWD = -2, FD = -3 };

/* Where a call has its files: up to two of (directory descriptor, path), or a descriptor itself. */
struct call {
    int number;
    const char *name;
    int flags;
    struct {
        int directory, path; /* argument numbers; directory may be CWD; path may be FD */
    } file[2];
};

#define AT(n, flags, d, p) {__NR_##n, #n, flags, {{d, p}, {NO, NO}}}
#define ATAT(n, flags, d, p, e, q) {__NR_##n, #n, flags, {{d, p}, {e, q}}}
#define PATH(n, flags) AT(n, flags, CWD, 0)
#define ON(n, flags, fd) AT(n, flags, fd, FD)

static const struct call calls[] = {
    AT(openat, OPEN, 0, 1),
    AT(openat2, OPEN, 0, 1),
    AT(mkdirat, CREATE, 0, 1),
    ATAT(renameat, ROOM | CHANGE, 2, 3, 0, 1),
    ATAT(renameat2, ROOM | CHANGE, 2, 3, 0, 1),
    ATAT(linkat, CREATE, 2, 3, 0, 1),
    AT(symlinkat, CREATE, 1, 2),
    AT(unlinkat, CHANGE, 0, 1),
    ON(fsync, ROOM | CHANGE, 0),
    ON(fdatasync, ROOM | CHANGE, 0),
    ON(syncfs, ROOM | CHANGE, 0),
    ON(sync_file_range, ROOM | CHANGE, 0),
    ON(ftruncate, ROOM | CHANGE, 0),
    AT(truncate, ROOM | CHANGE, CWD, 0),
    ON(fallocate, ROOM | CHANGE, 0),
    ON(write, ROOM | CHANGE, 0),
    ON(pwrite64, ROOM | CHANGE, 0),
    ON(writev, ROOM | CHANGE, 0),
    ON(pwritev, ROOM | CHANGE, 0),
    ON(pwritev2, ROOM | CHANGE, 0),
    {__NR_copy_file_range, "copy_file_range", ROOM | CHANGE, {{2, FD}, {0, FD}}},
    {__NR_sendfile, "sendfile", ROOM | CHANGE, {{0, FD}, {1, FD}}},
    ON(close, ROOM | CLOSE, 0),
    ON(read, 0, 0),
    ON(pread64, 0, 0),
    ON(readv, 0, 0),
    ON(preadv, 0, 0),
    AT(newfstatat, 0, 0, 1),
    ON(fstat, 0, 0),
    AT(statx, 0, 0, 1),
    AT(faccessat, 0, 0, 1),
    AT(faccessat2, 0, 0, 1),
    AT(readlinkat, 0, 0, 1),
    ON(getdents64, 0, 0),
    AT(statfs, 0, CWD, 0),
    ON(fstatfs, 0, 0),
    ON(flock, LOCK, 0),
    AT(utimensat, CHANGE, 0, 1),
    ON(fchmod, CHANGE, 0),
    AT(fchmodat, CHANGE, 0, 1),
#ifdef __NR_open
    PATH(open, OPEN),
    PATH(creat, OPEN),
    PATH(mkdir, CREATE),
    ATAT(rename, ROOM | CHANGE, CWD, 1, CWD, 0),
    ATAT(link, CREATE, CWD, 1, CWD, 0),
    AT(symlink, CREATE, CWD, 1),
    PATH(unlink, CHANGE),
    PATH(rmdir, CHANGE),
    PATH(stat, 0),
    PATH(lstat, 0),
    PATH(access, 0),
    PATH(readlink, 0),
    PATH(chmod, CHANGE),
    ON(getdents, 0, 0),
#endif
};
enum { CALLS = sizeof calls / sizeof *calls, MOST = 32 };
