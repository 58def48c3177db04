/* Lets the n-th file call of a process below given directories fail: a wrapper in front of a rank.

     inject [OPTION ...] -- program [argument ...]

   By hand, with either MPI:

     cc -O1 -o inject tests/faults/inject.c
     mpirun -n 2 ./inject --below /dev/shm/me/cache --errno ENOSPC --nth 40 --rank 1 -- ./app
     mpirun -n 2 ./inject --below $PWD/prefix --report /tmp/calls.%r -- ./app    (counts only)

   Under the shim, too: it does nothing in a process that never calls MPI_Init, as the wrapper and
   its supervisor. (Statically linked, the wrapper would be taken for a program that cannot be
   served.)

   --below DIR     a directory whose files count (several times for several; needed)
   --not DIR       a directory below one of these that does not count (several)
   --match GLOB    only paths that match (fnmatch, `*` takes slashes, too)
   --calls A,B     only these calls, by their names in the table below; all without it
   --errno NAME    the error: only calls that can fail so are counted (ENOSPC: those that take room;
                   EROFS: those that change something; any other: all). Without it nothing fails.
   --creating      counts only calls that make a new name (no inodes are left)
   --nth N[,N...]  the calls that fail, from 1 (default 1)
   --count K       how many fail from each on (default 1); 0: all
   --rank R        only in this rank of the MPI job; the others run without a filter
   --report FILE   a line for each counted call: number, `failed` or `-`, what it can fail with
                   (`s`: ENOSPC, `r`: EROFS, `c`: it creates a name), call, path. `%r` is the rank.

   How: a seccomp filter hands the calls to a supervisor, which reads their paths out of the process
   and answers. The process keeps its pid and its parent. Programs that it starts are counted with
   it.
   A close that fails has closed the file: its number is left to /dev/null. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, uint64_t)
#endif

#include "calls.h"

static const struct {
    const char *name;
    int value;
} errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EROFS", EROFS},   {"EDQUOT", EDQUOT},
              {"EACCES", EACCES}, {"EPERM", EPERM},   {"EMFILE", EMFILE}, {"ESTALE", ESTALE},
              {"ENOLCK", ENOLCK}, {"ENOSYS", ENOSYS}, {"EXDEV", EXDEV},
              {"EOPNOTSUPP", EOPNOTSUPP},
              {"EINVAL", EINVAL}, {"EMLINK", EMLINK}, {"EFBIG", EFBIG},   {"ETIMEDOUT", ETIMEDOUT}};

static struct {
    const char *below[MOST], *not[MOST], *match;
    int belows, nots, error, creating, rank, nths;
    long nth[MOST], count;
    char chosen[CALLS];
    const char *report;
} options = {.rank = -1, .nths = 1, .nth = {1}, .count = 1};

static void fail(const char *what) {
    fprintf(stderr, "inject: %s: %s\n", what, errno ? strerror(errno) : "not understood");
    exit(125);
}

/* ---- which calls count ---- */

/* Takes `.`, `..` and doubled slashes out of an absolute path. */
static void normalise(char *path) {
    char *to = path;
    for (char *from = path; *from;) {
        size_t length = 0;
        while (*from == '/')
            from++;
        while (from[length] && from[length] != '/')
            length++;
        if (length == 2 && !strncmp(from, "..", 2)) {
            while (to > path && *--to != '/')
                ;
        } else if (length && !(length == 1 && *from == '.')) {
            *to++ = '/';
            memmove(to, from, length);
            to += length;
        }
        from += length;
    }
    if (to == path)
        *to++ = '/';
    *to = 0;
}

static int inside(const char *path, const char *directory) {
    size_t length = strlen(directory);
    return !strncmp(path, directory, length) && (!path[length] || path[length] == '/');
}

static int wanted(const char *path) {
    int found = 0;
    for (int i = 0; i < options.belows; i++)
        found |= inside(path, options.below[i]);
    for (int i = 0; i < options.nots; i++)
        found &= !inside(path, options.not[i]);
    return found && (!options.match || !fnmatch(options.match, path, 0));
}

static int descriptor_path(pid_t task, int descriptor, char *path) {
    char link[64];
    if (descriptor == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/cwd", task);
    else
        snprintf(link, sizeof link, "/proc/%d/fd/%d", task, descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return *path == '/';
}

static int memory(pid_t task, uint64_t address, void *into, size_t size) {
    struct iovec here = {into, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_readv(task, &here, 1, &there, 1, 0);
}

/* The string at `address`; page by page, because the next page may not be there. */
static int string(pid_t task, uint64_t address, char *into, size_t size) {
    for (size_t have = 0; have < size;) {
        size_t part = 4096 - (address + have) % 4096;
        if (part > size - have)
            part = size - have;
        if (memory(task, address + have, into + have, part) < (int)part)
            return 0;
        if (memchr(into + have, 0, part))
            return 1;
        have += part;
    }
    return 0;
}

/* The absolute path of one of the call's files, if it has such a one. */
static int file_of(const struct seccomp_notif *note, const struct call *call, int which,
                   char *path) {
    int directory = call->file[which].directory, at = call->file[which].path, number;
    char name[PATH_MAX], whole[2 * PATH_MAX];
    if (directory == NO)
        return 0;
    int descriptor = directory == CWD ? AT_FDCWD : (int)note->data.args[directory];
    if (at == FD)
        return descriptor_path(note->pid, descriptor, path);
    if (!string(note->pid, note->data.args[at], name, sizeof name))
        return 0;
    if (sscanf(name, "/proc/self/fd/%d", &number) == 1)
        return descriptor_path(note->pid, number, path);
    if (!*name)
        return descriptor_path(note->pid, descriptor, path);
    if (*name != '/') {
        if (!descriptor_path(note->pid, descriptor, path))
            return 0;
        snprintf(whole, sizeof whole, "%s/%s", path, name);
        whole[PATH_MAX - 1] = 0;
        strcpy(path, whole);
    } else {
        strcpy(path, name);
    }
    normalise(path);
    return 1;
}

static int open_flags(const struct seccomp_notif *note, const struct call *call) {
    if (!strcmp(call->name, "openat"))
        return note->data.args[2];
    if (!strcmp(call->name, "open"))
        return note->data.args[1];
    struct open_how how = {.flags = O_WRONLY | O_CREAT | O_TRUNC}; /* creat */
    if (!strcmp(call->name, "openat2"))
        memory(note->pid, note->data.args[2], &how, sizeof how);
    return how.flags;
}

/* Whether the descriptor can write: the close of another has nothing left to fail. */
static int writable(pid_t task, int descriptor) {
    char name[64], line[128];
    int flags = 0;
    snprintf(name, sizeof name, "/proc/%d/fdinfo/%d", task, descriptor);
    FILE *info = fopen(name, "re");
    while (info && fgets(line, sizeof line, info))
        sscanf(line, "flags: %o", &flags);
    if (info)
        fclose(info);
    return (flags & O_ACCMODE) != O_RDONLY;
}

/* What this very call can fail with: ROOM, CHANGE, CREATE. */
static int nature(const struct seccomp_notif *note, const struct call *call, const char *path) {
    struct stat status;
    if (!(call->flags & (OPEN | CREATE)))
        return call->flags & (ROOM | CHANGE);
    int flags = call->flags & OPEN ? open_flags(note, call) : O_CREAT;
    int missing = lstat(path, &status) && errno == ENOENT;
    if ((flags & O_CREAT && missing) || (flags & O_TMPFILE) == O_TMPFILE)
        return ROOM | CHANGE | CREATE;
    return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC ? CHANGE : 0;
}

/* Whether the call counts; `path` is then its file. */
static int counts(const struct seccomp_notif *note, const struct call *call, char *path, int *can) {
    int which = file_of(note, call, 0, path) && wanted(path) ? 0 : 1;
    if (which == 1 && !(file_of(note, call, 1, path) && wanted(path)))
        return 0;
    if (call->flags & LOCK && note->data.args[1] & LOCK_UN)
        return 0; /* nothing fails so: the lock would stay for ever */
    if (call->flags & CLOSE && !writable(note->pid, note->data.args[0]))
        return 0;
    int copies_from = which == 1 && call->file[1].path == FD;
    *can = copies_from ? 0 : nature(note, call, path);
    if (options.creating && !(*can & CREATE))
        return 0;
    if (options.error == ENOSPC || options.error == EDQUOT)
        return *can & ROOM;
    return options.error != EROFS || *can & CHANGE;
}

/* ---- the supervisor ---- */

/* Closes the descriptor in the process by putting /dev/null in its place. */
static void close_there(int listener, const struct seccomp_notif *note) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct seccomp_notif_addfd add = {.id = note->id, .flags = SECCOMP_ADDFD_FLAG_SETFD,
                                      .srcfd = null, .newfd = note->data.args[0],
                                      .newfd_flags = O_CLOEXEC};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    close(null);
}

static int fails(long number) {
    for (int i = 0; i < options.nths; i++)
        if (number >= options.nth[i] && (!options.count || number < options.nth[i] + options.count))
            return options.error;
    return 0;
}

static void answer(int listener, int report, const struct seccomp_notif *note) {
    static long number = 0;
    struct seccomp_notif_resp reply = {.id = note->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    const struct call *call = calls;
    char path[2 * PATH_MAX], line[PATH_MAX + 256];
    int can = 0;
    while (call->number != note->data.nr)
        call++;
    if (counts(note, call, path, &can)) {
        int failing = fails(++number);
        if (failing) {
            reply.flags = 0;
            reply.error = -failing;
            if (call->flags & CLOSE)
                close_there(listener, note);
        }
        path[PATH_MAX - 1] = 0;
        int length = snprintf(line, sizeof line, "%ld %s %c%c%c %s %s\n", number,
                              failing ? "failed" : "-", can & ROOM ? 's' : '-',
                              can & CHANGE ? 'r' : '-', can & CREATE ? 'c' : '-', call->name, path);
        if (report >= 0 && write(report, line, length) != length)
            fail("report");
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply); /* the process may have been killed */
}

/* Serves the listener until the last process under the filter has gone. */
static void supervise(int listener, int report) {
    struct seccomp_notif note;
    /* Where the kernel can (6.6), the two take turns on one processor: that is faster. */
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    for (;;) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        if (poll(&ready, 1, -1) < 0 && errno != EINTR)
            return;
        if (ready.revents & POLLIN) {
            memset(&note, 0, sizeof note);
            if (!ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &note))
                answer(listener, report, &note);
        } else if (ready.revents) {
            return;
        }
    }
}

/* ---- the process ---- */

static int listen_to_calls(void) {
    struct sock_filter filter[CALLS + 3];
    int length = 0, last = 0;
    for (int i = 0; i < CALLS; i++)
        last += options.chosen[i];
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                    offsetof(struct seccomp_data, nr));
    for (int i = 0; i < CALLS; i++)
        if (options.chosen[i])
            filter[length++] =
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, last--, 0);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        fail("no_new_privs");
    /* A signal must not make a call that has been counted begin again. */
    return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
                   SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                   &program);
}

static void hand_over(int socket, int listener) {
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &listener, sizeof listener);
    if (sendmsg(socket, &message, 0) != 1)
        fail("sendmsg");
}

static int take_over(int socket) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    int listener;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
        exit(125); /* the process could not install the filter, and has said so */
    memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof listener);
    return listener;
}

/* The supervisor is nobody's child, in a session of its own and without the rank's output: neither
   the program nor its launcher waits for it. It writes to the report only. */
static void start_supervisor(int ends[2], const char *rank) {
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child) {
        waitpid(child, NULL, 0);
        return;
    }
    if (fork())
        _exit(0);
    setsid();
    int report = -1, null = open("/dev/null", O_RDWR), listener = take_over(ends[1]);
    if (options.report) {
        char name[PATH_MAX], *mark = strstr(options.report, "%r");
        if (mark)
            snprintf(name, sizeof name, "%.*s%s%s", (int)(mark - options.report), options.report,
                     rank ? rank : "0", mark + 2);
        const char *path = mark ? name : options.report;
        report = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (report < 0)
            fail(options.report);
    }
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    signal(SIGTERM, SIG_IGN); /* a launcher that ends everything: the rank decides */
    signal(SIGPIPE, SIG_IGN);
    for (int i = 3; i < 1024; i++)
        if (i != listener && i != report)
            close(i);
    if (chdir("/"))
        fail("chdir");
    supervise(listener, report);
    _exit(0);
}

/* ---- options ---- */

static const char *directory(const char *name) {
    char *real = realpath(name, NULL);
    return real ? real : name;
}

static void choose(char *names) {
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        int known = 0;
        for (int i = 0; i < CALLS; i++)
            if (!strcmp(calls[i].name, name))
                known = options.chosen[i] = 1;
        errno = 0;
        if (!known)
            fail(name);
    }
}

static void read_numbers(char *numbers) {
    options.nths = 0;
    for (char *number = strtok(numbers, ","); number; number = strtok(NULL, ","))
        if (options.nths < MOST)
            options.nth[options.nths++] = atol(number);
}

static int error_named(const char *name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (!strcmp(errors[i].name, name))
            return errors[i].value;
    errno = 0;
    fail(name);
    return 0;
}

/* Returns where the program begins in `words`. */
static int read_options(int count, char **words) {
    int at = 1, chosen = 0;
    for (; at < count && strcmp(words[at], "--"); at++) {
        char *option = words[at];
        if (!strcmp(option, "--creating")) {
            options.creating = 1;
            continue;
        }
        errno = 0;
        char *value = at + 1 < count ? words[++at] : "";
        if (!strcmp(option, "--below") && options.belows < MOST)
            options.below[options.belows++] = directory(value);
        else if (!strcmp(option, "--not") && options.nots < MOST)
            options.not[options.nots++] = directory(value);
        else if (!strcmp(option, "--match"))
            options.match = value;
        else if (!strcmp(option, "--calls"))
            choose(value), chosen = 1;
        else if (!strcmp(option, "--errno"))
            options.error = error_named(value);
        else if (!strcmp(option, "--nth"))
            read_numbers(value);
        else if (!strcmp(option, "--count"))
            options.count = atol(value);
        else if (!strcmp(option, "--rank"))
            options.rank = atoi(value);
        else if (!strcmp(option, "--report"))
            options.report = value;
        else
            fail(option);
    }
    for (int i = 0; !chosen && i < CALLS; i++)
        options.chosen[i] = 1;
    if (at + 1 >= count || !options.belows)
        fail("usage: inject --below DIR [OPTION ...] -- program [argument ...]");
    return at + 1;
}

int main(int count, char **words) {
    int program = read_options(count, words), ends[2];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("PMI_RANK");
    if (options.rank < 0 || (rank && atoi(rank) == options.rank)) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
            fail("socketpair");
        start_supervisor(ends, rank);
        int listener = listen_to_calls();
        if (listener < 0)
            fail("seccomp");
        hand_over(ends[0], listener);
        syscall(__NR_close_range, listener, listener, 0); /* `close` would be the first call */
        syscall(__NR_close_range, ends[0], ends[0], 0);
        syscall(__NR_close_range, ends[1], ends[1], 0);
    }
    execvp(words[program], words + program);
    fail(words[program]);
}
