/* Files that may be written over old ones: all that the program can learn of them is printed, so
 * that it can be compared with a run without the shim. `over CASE`, or `over random SEED`. */
#include "check.h"
#include <sys/sendfile.h>
#include <signal.h>

enum { HALF = 70000, BYTES = 2 * HALF, MANY = 6 * HALF };
static char data[MANY], *name = "c_over", *other = "c_over_2";

static unsigned sum(const char *of, size_t bytes)
{
    unsigned sum = 1;
    for (size_t i = 0; i < bytes; i++) sum = sum * 31 + (unsigned char)of[i];
    return sum;
}

static void tell(const char *what, long value)
{
    printf("%s %ld errno %d\n", what, value, value == -1 ? errno : 0);
}

/* What is found under a name now. */
static void look(const char *what, const char *at)
{
    static char found[4 * MANY];
    struct stat by_name;
    int known = stat(at, &by_name), fd = open(at, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof found);
    if (fd >= 0) close(fd);
    if (known != 0) memset(&by_name, 0, sizeof by_name);
    int too_much = by_name.st_blocks * 512 > by_name.st_size + 65536;
    printf("%s %s: %d size %ld blocks %d links %d mode %o read %ld sum %08x\n", what, at, known,
           (long)by_name.st_size, too_much, (int)by_name.st_nlink, by_name.st_mode, (long)n,
           n < 0 ? 0 : sum(found, (size_t)n));
}

static void look_through(const char *what, int fd)
{
    struct stat found = { 0 };
    int known = fstat(fd, &found);
    printf("%s: %d size %ld mode %o links %d fresh %d\n", what, known, (long)found.st_size,
           found.st_mode, (int)found.st_nlink, time(NULL) - found.st_mtime < 100);
}

static int opened(int flags) { return open(name, O_CREAT | flags, 0640); }
static void half(int fd, int which) { tell("half", write(fd, data + which * HALF, HALF)); }

static void *look_aside(void *what) { look(what, name); return NULL; }
static volatile int handled;
static void on_signal(int number) { (void)number; look("handler", name); handled = 1; }

/* Between two halves. */
static void between(const char *what, int fd)
{
    struct iovec parts[] = { { data, 7 }, { data + 7, 993 } };
    int two, status;
    pid_t child;
    pthread_t thread;
    if (!strcmp(what, "longer")) tell("more", write(fd, data + HALF, MANY - HALF));
    if (!strcmp(what, "shorter")) {
        tell("cut", ftruncate(fd, 5));
        tell("back", lseek(fd, 0, SEEK_END));
    }
    if (!strcmp(what, "grown")) tell("grow", ftruncate(fd, MANY));
    if (!strcmp(what, "back")) {
        tell("seek", lseek(fd, 3, SEEK_SET));
        tell("patch", write(fd, "xyz", 3));
    }
    if (!strcmp(what, "stay")) {
        tell("seek", lseek(fd, HALF, SEEK_SET));
        tell("at", lseek(fd, 0, SEEK_CUR));
    }
    if (!strcmp(what, "hole")) tell("seek", lseek(fd, 5000, SEEK_CUR));
    if (!strcmp(what, "end")) tell("seek", lseek(fd, 0, SEEK_END));
    if (!strcmp(what, "data")) tell("seek", lseek(fd, 0, SEEK_HOLE));
    if (!strcmp(what, "elsewhere")) tell("pwrite", pwrite(fd, "x", 1, 3));
    if (!strcmp(what, "offset")) tell("pwrite", pwrite(fd, data, 5, HALF));
    if (!strcmp(what, "vector")) tell("writev", writev(fd, parts, 2));
    if (!strcmp(what, "fstat")) look_through("fstat", fd);
    if (!strcmp(what, "stat")) look("stat", name);
    if (!strcmp(what, "dup")) {
        tell("dup", (two = dup(fd)) >= 0);
        half(two, 2);
        tell("close", close(two));
    }
    if (!strcmp(what, "dup2")) {
        two = open("/dev/null", O_WRONLY);
        tell("dup2", dup2(two, fd) == fd);
        close(two);
    }
    if (!strcmp(what, "printed")) tell("dprintf", dprintf(fd, "%d", 5));
    if (!strcmp(what, "append")) tell("append", fcntl(fd, F_SETFL, O_APPEND));
    if (!strcmp(what, "flags"))
        tell("flags", fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_TRUNC));
    if (!strcmp(what, "sync")) tell("fsync", fsync(fd));
    if (!strcmp(what, "lock")) tell("flock", lockf(fd, F_TLOCK, 5));
    if (!strcmp(what, "mode")) { tell("fchmod", fchmod(fd, 0600)); look("mode", name); }
    if (!strcmp(what, "rename")) tell("rename", rename(name, other));
    if (!strcmp(what, "unlink")) { tell("unlink", unlink(name)); look_through("orphan", fd); }
    if (!strcmp(what, "second")) {
        tell("open", (two = open(name, O_WRONLY)) >= 0);
        tell("pwrite", pwrite(two, "x", 1, 3));
        tell("close", close(two));
    }
    if (!strcmp(what, "another")) {
        tell("open", (two = open(other, O_WRONLY | O_CREAT, 0600)) - fd);
        half(two, 1);
        half(fd, 2);
        tell("close", close(two));
    }
    if (!strcmp(what, "own name")) {
        char link[64];
        struct stat found;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        tell("stat", stat(link, &found));
        tell("size", found.st_size);
        tell("open", (two = open(link, O_WRONLY)) >= 0);
        tell("pwrite", pwrite(two, "x", 1, 3));
        tell("close", close(two));
    }
    if (!strcmp(what, "sent")) {
        two = open("/proc/self/exe", O_RDONLY);
        tell("sendfile", sendfile(fd, two, NULL, 3));
        close(two);
    }
    if (!strcmp(what, "fork")) {
        if ((child = fork()) == 0) {
            look_through("child", fd);
            half(fd, 2);
            fflush(stdout);
            _exit(0);
        }
        tell("child", waitpid(child, &status, 0) == child && status == 0);
    }
    if (!strcmp(what, "system")) tell("system", system("true"));
    if (!strcmp(what, "thread")) {
        CHECK(pthread_create(&thread, NULL, look_aside, "thread") == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    if (!strcmp(what, "handler")) {
        signal(SIGUSR1, on_signal);
        handled = 0;
        raise(SIGUSR1);
        CHECK(handled); /* raise returns after the handler */
    }
    if (!strcmp(what, "fault")) { void *volatile no = NULL; tell("write", write(fd, no, 10)); }
    if (!strcmp(what, "barrier")) tell("barrier", MPI_Barrier(0));
    if (!strcmp(what, "raw close")) { tell("close", syscall(SYS_close, fd)); look("closed", name); }
    if (!strcmp(what, "range")) tell("range", close_range(fd, fd, 0));
    if (!strcmp(what, "exit")) exit(0);
}

static void one(const char *what)
{
    umask(027);
    if (!strcmp(what, "there")) tell("close", close(opened(O_WRONLY)));
    if (!strcmp(what, "there")) tell("refused", open(name, O_WRONLY | O_CREAT | O_EXCL, 0600));
    int flags = O_WRONLY | (!strcmp(what, "exclusive") ? O_EXCL : O_TRUNC);
    int fd = opened(flags);
    tell("open", fd >= 0);
    if (!strcmp(what, "nothing")) {
        look_through("nothing", fd);
        close(fd);
        look("end", name);
        return;
    }
    half(fd, 0);
    if (!strcmp(what, "one half")) { close(fd); look("end", name); return; }
    between(what, fd);
    half(fd, 1);
    look_through("end", fd);
    tell("close", close(fd));
    look("end", name);
    look("end", other);
}

static unsigned seed;
static unsigned below(unsigned n) { return (seed = seed * 1103515245u + 12345u) / 65536 % n; }

static void random_calls(void)
{
    static const char *const acts[] = {
        "longer", "shorter", "grown", "back", "stay", "hole", "end", "data", "elsewhere", "offset",
        "vector", "fstat", "stat", "dup", "printed", "flags", "sync", "lock", "mode", "rename",
        "second", "another", "own name", "sent", "thread", "handler", "fault", "barrier", "unlink",
        "fork", "append",
    };
    for (int files = 0; files < 6; files++) {
        int fd = opened(O_WRONLY | (below(4) ? O_TRUNC : 0));
        for (unsigned steps = below(7); steps > 0; steps--) {
            if (below(2)) { tell("write", write(fd, data + below(HALF), below(BYTES))); continue; }
            /* What ends the matter for the process is rare. */
            unsigned act = below(sizeof acts / sizeof *acts - (below(8) ? 3 : 0));
            printf("%s\n", acts[act]);
            fflush(stdout);
            between(acts[act], fd);
        }
        tell("close", close(fd));
        look("closed", name);
        look("closed", other);
    }
}

int main(int argc, char **argv)
{
    for (int i = 0; i < MANY; i++) data[i] = (char)(i * 31 + i / 251);
    CHECK(MPI_Init(&argc, &argv) == 0);
    if (argc > 2) { seed = (unsigned)atoi(argv[2]); random_calls(); } else one(argv[1]);
    return MPI_Finalize();
}
