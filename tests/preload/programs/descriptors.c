/* What holds a token, and when it is given up: the log tells, with our marks in between. */
#include "check.h"
#include <aio.h>
#include <wchar.h>

static int cached(const char *name) { return open(name, O_RDWR | O_CREAT, 0644); }

static void copies(void)
{
    mark("dup");
    int a = cached("c_a"), b = dup(a), c = fcntl(a, F_DUPFD_CLOEXEC, 50);
    CHECK(c >= 50 && close(a) == 0 && close(b) == 0);
    mark("last");
    CHECK(close(c) == 0);
    mark("dup2 over it");
    a = cached("c_a");
    b = open("/dev/null", O_RDONLY);
    CHECK(dup2(b, a) == a);
    mark("dup3 to another");
    c = cached("c_a");
    CHECK(dup3(c, b, O_CLOEXEC) == b && close(c) == 0);
    mark("close_range");
    CHECK(close_range(b, b, 0) == 0);
    mark("closefrom");
    a = cached("c_a");
    b = fcntl(a, F_DUPFD, 700);
    closefrom(600);
    mark("still one");
    CHECK(close(a) == 0);
}

static void streams(void)
{
    mark("fdopen");
    int a = cached("c_b"), b = fcntl(a, F_DUPFD_CLOEXEC, 0);
    FILE *s = fdopen(b, "w");
    CHECK(s && fputs("x", s) >= 0 && fclose(s) == 0);
    mark("fclose was not the last");
    CHECK(close(a) == 0);
    mark("freopen");
    s = fopen("c_b", "w");
    s = freopen("c_c", "w", s);
    mark("second stream");
    CHECK(s && fclose(s) == 0);
}

static void mappings(void)
{
    mark("mmap");
    int fd = cached("c_m");
    CHECK(ftruncate(fd, 8192) == 0);
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && close(fd) == 0);
    mark("closed but mapped");
    p[5000] = 1;
    CHECK(msync(p, 8192, MS_SYNC) == 0 && munmap(p, 4096) == 0);
    mark("half");
    CHECK(munmap(p + 4096, 4096) == 0);
    mark("private");
    fd = cached("c_m");
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(p != MAP_FAILED && close(fd) == 0);
    mark("gone");
    CHECK(munmap(p, 4096) == 0);
}

static void unseen(void)
{
    mark("a close that no hook sees");
    int fd = cached("c_u");
    CHECK(syscall(SYS_close, fd) == 0);
    int again = open("/dev/null", O_RDONLY);
    CHECK(again == fd);
    mark("found by its number");
    CHECK(close(again) == 0);
}

static void children(void)
{
    mark("fork");
    int fd = cached("c_f"), status;
    pid_t child = fork();
    if (child == 0) {
        /* The child's closes are its own, and its files are plain. */
        close(fd);
        int plain = open("c_child", O_CREAT | O_WRONLY, 0644);
        _exit(plain >= 0 && in_prefix("c_child") ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    mark("vfork");
    child = vfork();
    if (child == 0) {
        close(fd);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    mark("parent");
    CHECK(close(fd) == 0);
}

/* Whether a file that is not ours has this content. */
static int holds(const char *name, const char *want)
{
    char found[64] = "";
    int fd = open(name, O_RDONLY);
    ssize_t n = read(fd, found, sizeof found - 1);
    close(fd);
    return n == (ssize_t)strlen(want) && !strcmp(found, want);
}

static void failures(void)
{
    mark("full");
    int fd = open("c_full", O_WRONLY), copy = dup(fd);
    CHECK(fd >= 0 && write(fd, "12345", 5) == 5);
    CHECK(write(copy, "67", 2) == 2 && close(copy) == 0 && close(fd) == 0);
    mark("full without refuge");
    unsetenv("FAKE_EVACUATE");
    fd = open("c_full", O_WRONLY);
    errno = 0;
    CHECK(write(fd, "12345", 5) == -1 && errno == ENOSPC && close(fd) == 0);
    mark("full stream");
    setenv("FAKE_EVACUATE", "streamed", 1);
    FILE *s = fopen("c_full", "w");
    CHECK(s && fputs("flushed,", s) >= 0 && fflush(s) == 0 && !ferror(s));
    CHECK(fputs("closed", s) >= 0 && fclose(s) == 0 && holds("streamed", "flushed,closed"));
    mark("full stream, closed at once");
    setenv("FAKE_EVACUATE", "shut", 1);
    CHECK((s = fopen("c_full", "w")) && fputs("x", s) >= 0 && fclose(s) == 0);
    CHECK(holds("shut", "x"));
    mark("full wide stream");
    setenv("FAKE_EVACUATE", "wide", 1);
    CHECK((s = fopen("c_full", "w")) && fputws(L"wide", s) >= 0 && fclose(s) == 0);
    CHECK(holds("wide", "wide"));
    mark("full stream without refuge");
    unsetenv("FAKE_EVACUATE");
    CHECK((s = fopen("c_full", "w")) && fputs("x", s) >= 0);
    errno = 0;
    CHECK(fclose(s) == EOF && errno == ENOSPC);
    mark("the program's own mistake");
    fd = open("c_a", O_RDONLY);
    CHECK(write(fd, "x", 1) == -1 && errno == EBADF && close(fd) == 0);
}

/* What has no room from the beginning, or is written in ways that no hook sees. */
static void room(void)
{
    mark("no room at the open");
    setenv("FAKE_NO_ROOM", "open", 1);
    setenv("FAKE_EVACUATE", "opened", 1);
    FILE *s = fopen("c_room", "w");
    CHECK(s && fputs("x", s) >= 0 && fclose(s) == 0 && holds("opened", "x"));
    mark("no room for a mapping");
    setenv("FAKE_NO_ROOM", "later", 1);
    setenv("FAKE_EVACUATE", "mapped", 1);
    int fd = open("c_room", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && ftruncate(fd, 4) == 0 && write(fd, "1234", 4) == 4);
    char *p = mmap(0, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    memcpy(p, "wxyz", 4);
    CHECK(munmap(p, 4) == 0 && close(fd) == 0 && holds("mapped", "wxyz"));
    mark("no room for libc's threads");
    setenv("FAKE_EVACUATE", "aio", 1);
    fd = open("c_room", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct aiocb block = { .aio_fildes = fd, .aio_buf = "later", .aio_nbytes = 5 };
    const struct aiocb *list[] = { &block };
    CHECK(aio_write(&block) == 0 && aio_suspend(list, 1, 0) == 0 && aio_return(&block) == 5);
    CHECK(close(fd) == 0 && holds("aio", "later"));
    unsetenv("FAKE_NO_ROOM");
    unsetenv("FAKE_EVACUATE");
}

int main(int argc, char **argv)
{
    CHECK(MPI_Init(&argc, &argv) == 0);
    copies();
    streams();
    mappings();
    unseen();
    children();
    failures();
    room();
    return 0;
}
