/* A descriptor that could write, on a copy that must not change: reading leaves it alone, the first
 * change of whatever kind moves it to another file, with all its copies, its offset and its flags.
 * "c_lazy" is such a file for the fake engine; its copies are c_lazy.N. */
#include "check.h"
#include <aio.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/sendfile.h>

static char sealed[4096];

static int opened(int flags) { int fd = open("c_lazy", flags, 0644); CHECK(fd >= 0); return fd; }

static void is_sealed(const char *what)
{
    char text[32] = "";
    int fd = open(sealed, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) == 10 && close(fd) == 0);
    if (strcmp(text, "0123456789")) { fprintf(stderr, "changed by %s\n", what); exit(1); }
}

static int source(void)
{
    int fd = open("source", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && pwrite(fd, "abc", 3, 0) == 3);
    return fd;
}

static int vprinted(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vdprintf(fd, format, list);
    va_end(list);
    return n;
}

static void change(int fd, int what)
{
    struct iovec part = { "x", 1 };
    struct aiocb block = { .aio_fildes = fd, .aio_buf = "x", .aio_nbytes = 1,
                           .aio_lio_opcode = LIO_WRITE };
    const struct aiocb *const one[] = { &block };
    struct aiocb *blocks[] = { NULL, &block };
    int other = source(), ends[2], copy;
    char text[32];
    loff_t at = 0;
    char *map;
    FILE *stream;
    switch (what) {
    case 0: CHECK(write(fd, "x", 1) == 1); break;
    case 1: CHECK(pwrite(fd, "x", 1, 2) == 1); break;
    case 2: CHECK(writev(fd, &part, 1) == 1); break;
    case 3: CHECK(pwritev(fd, &part, 1, 2) == 1); break;
    case 4: CHECK(pwritev2(fd, &part, 1, 2, 0) == 1); break;
    case 5: CHECK(sendfile(fd, other, NULL, 3) >= 0); break;
    case 6: CHECK(copy_file_range(other, &at, fd, NULL, 3, 0) == 3); break;
    case 7:
        CHECK(pipe(ends) == 0 && write(ends[1], "yz", 2) == 2);
        CHECK(splice(ends[0], NULL, fd, NULL, 2, 0) == 2 && !close(ends[0]) && !close(ends[1]));
        break;
    case 8: CHECK(ftruncate(fd, 3) == 0); break;
    case 9: CHECK(fallocate(fd, 0, 0, 100) == 0); break;
    case 10: CHECK(posix_fallocate(fd, 0, 100) == 0); break;
    case 11:
        map = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(map != MAP_FAILED);
        map[3] = 'm';
        CHECK(munmap(map, 10) == 0);
        break;
    case 12:
        copy = dup(fd);
        stream = fdopen(copy, "r+");
        CHECK(stream && fputs("s", stream) >= 0 && fclose(stream) == 0);
        break;
    case 13:
        stream = fopen("c_lazy", "r+");
        CHECK(stream && fputs("s", stream) >= 0 && fclose(stream) == 0);
        break;
    case 14:
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        CHECK(write(copy, "x", 1) == 1 && close(copy) == 0);
        break;
    case 15: {
        pid_t child = fork();
        int status;
        if (child == 0) _exit(syscall(SYS_write, fd, "f", 1) == 1 ? 0 : 1);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        break;
    }
    case 16:
        CHECK(aio_write(&block) == 0 && aio_suspend(one, 1, NULL) == 0 && aio_return(&block) == 1);
        break;
    case 17: CHECK(lio_listio(LIO_WAIT, blocks, 2, NULL) == 0); break;
    case 18:
        CHECK(dprintf(fd, "%d %s %ld %d %d %.1f %.1f", 42, "text", 1L, 2, 3, 1.5, -0.5) == 22);
        CHECK(pread(fd, text, 22, 0) == 22 && !memcmp(text, "42 text 1 2 3 1.5 -0.5", 22));
        break;
    case 19: CHECK(vprinted(fd, "%d %s %f", 42, "text", 1.5) == 16); break;
    case 20: CHECK(ftruncate(fd, 0) == 0); break;
    default:
        CHECK(SYMBOL(int (*)(int, int, const char *, ...), "__dprintf_chk")(fd, 1, "%d", 7) == 1);
    }
    close(other);
}

/* A number for which no hook looks before a write. */
static void impossible_beyond(int fd)
{
    enum { BEYOND = 70000 };
    struct rlimit limit = { BEYOND + 10, BEYOND + 10 };
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return; /* not allowed here */
    errno = 0;
    CHECK(dup2(fd, BEYOND) == -1 && errno == ENOSPC && fcntl(BEYOND, F_GETFD) == -1);
    errno = 0;
    CHECK(fcntl(fd, F_DUPFD, BEYOND) == -1 && errno == ENOSPC && fcntl(BEYOND, F_GETFD) == -1);
}

/* There is no room for a copy: what cannot be told before it writes is refused. */
static void impossible(void)
{
    char text[16] = "";
    int status;
    mark("impossible");
    setenv("FAKE_FULL", "1", 1);
    int fd = opened(O_RDWR);
    errno = 0;
    CHECK(write(fd, "x", 1) == -1 && errno == ENOSPC);
    is_sealed("a write that had to fail");
    errno = 0;
    CHECK(dprintf(fd, "%s %d %f", "x", 1, 1.5) == -1 && errno == ENOSPC);
    is_sealed("dprintf");
    impossible_beyond(fd);
    mark("no stream");
    errno = 0;
    FILE *stream = fopen("c_lazy", "r+");
    if (stream) CHECK(fputs("s", stream) >= 0 && fclose(stream) == 0);
    is_sealed("fopen");
    CHECK(!stream && errno == ENOSPC);
    mark("no other stream");
    stream = fopen("source", "r");
    errno = 0;
    CHECK(stream && !freopen("c_lazy", "a", stream) && errno == ENOSPC);
    is_sealed("freopen");
    mark("a child that only reads");
    pid_t child = fork();
    if (child == 0) {
        int failed = syscall(SYS_write, fd, "f", 1) == -1 && errno == EBADF;
        _exit(failed && read(fd, text, 10) == 10 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    is_sealed("fork");
    CHECK(status == 0 && read(fd, text, 10) == 10 && close(fd) == 0);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        "write", "pwrite", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range", "splice",
        "ftruncate", "fallocate", "posix_fallocate", "mmap", "fdopen", "fopen", "a copy", "fork",
        "aio_write", "lio_listio", "dprintf", "vdprintf", "emptied",
        "__dprintf_chk",
    };
    char text[16] = "";
    CHECK(MPI_Init(&argc, &argv) == 0);
    snprintf(sealed, sizeof sealed, "%s/c_lazy", getenv("FAKE_CACHE"));
    int fd = open(sealed, O_WRONLY | O_CREAT, 0644);
    CHECK(fd >= 0 && write(fd, "0123456789", 10) == 10 && close(fd) == 0);

    mark("reading");
    fd = opened(O_RDWR | O_CREAT);
    CHECK(read(fd, text, 4) == 4 && lseek(fd, 0, SEEK_END) == 10 && fsync(fd) == 0);
    void *map = mmap(NULL, 10, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(map != MAP_FAILED && munmap(map, 10) == 0 && close(fd) == 0);
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        mark(names[i]);
        fd = opened(O_RDWR);
        change(fd, i);
        is_sealed(names[i]);
        CHECK(close(fd) == 0);
    }
    mark("two openers");
    fd = opened(O_RDWR | O_CLOEXEC);
    int other = opened(O_RDWR), copy = dup(fd);
    CHECK(read(fd, text, 4) == 4 && write(copy, "xy", 2) == 2);
    CHECK(pread(other, text, 10, 0) == 10 && !memcmp(text, "0123xy6789", 10));
    CHECK(read(fd, text, 1) == 1 && text[0] == '6');
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(copy, F_GETFD) == 0);
    CHECK(write(other, "z", 1) == 1 && close(other) == 0 && close(copy) == 0 && close(fd) == 0);
    is_sealed("two openers");
    impossible();
    return 0;
}
