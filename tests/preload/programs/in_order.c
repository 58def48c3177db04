/* Files whose checksum is known at their close, since all that was written was seen in order; and
 * files that were changed in between in some other way. The mark before each says what the engine
 * is to hear: the checksum, or "none". */
#include "check.h"
#include <aio.h>
#include <spawn.h>
#include <sys/sendfile.h>

enum { BYTES = 200000, HALF = BYTES / 2 };
static char data[BYTES], name[64];
extern char **environ;

static unsigned crc32(void)
{
    unsigned crc = ~0u;
    for (int i = 0; i < BYTES; i++) {
        crc ^= (unsigned char)data[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
    }
    return ~crc;
}

static void expect(const char *what, int known)
{
    char text[200], value[16];
    static int number;
    snprintf(value, sizeof value, "%08x", crc32());
    snprintf(text, sizeof text, "%s: %s", what, known ? value : "none");
    mark(text);
    snprintf(name, sizeof name, "c_%d", ++number);
}

static int opened(int flags)
{
    int fd = open(name, O_CREAT | O_TRUNC | flags, 0644);
    CHECK(fd >= 0);
    return fd;
}

static void half(int fd, int which) { CHECK(write(fd, data + which * HALF, HALF) == HALF); }

static void *write_half(void *fd) { half(*(int *)fd, 0); return NULL; }

static void in_order(void)
{
    expect("two writes", 1);
    int fd = opened(O_WRONLY);
    half(fd, 0);
    half(fd, 1);
    CHECK(close(fd) == 0);
    expect("read and write", 1);
    fd = opened(O_RDWR);
    half(fd, 0);
    half(fd, 1);
    CHECK(pread(fd, name + 32, 3, 5) == 3 && lseek(fd, 0, SEEK_END) == BYTES && close(fd) == 0);
    expect("vectors and offsets", 1);
    fd = opened(O_WRONLY | O_APPEND);
    struct iovec parts[] = { { data, 7 }, { data, 0 }, { data + 7, 993 } };
    struct iovec next[] = { { data + 1000, 1 }, { data + 1001, 999 } };
    CHECK(writev(fd, parts, 3) == 1000 && pwritev(fd, next, 2, 1000) == 1000);
    CHECK(pwrite(fd, data + 2000, HALF - 2000, 2000) == HALF - 2000);
    CHECK(lseek(fd, HALF, SEEK_SET) == HALF);
    half(fd, 1);
    CHECK(close(fd) == 0);
    expect("a stream", 1);
    FILE *stream = fopen(name, "w");
    CHECK(stream && fputc(data[0], stream) == data[0] && fputc(data[1], stream) == data[1]);
    CHECK(fwrite(data + 2, 1, 10, stream) == 10 && fflush(stream) == 0);
    CHECK(fwrite(data + 12, BYTES - 12, 1, stream) == 1 && fclose(stream) == 0);
    expect("a stream on a descriptor", 1);
    stream = fdopen(opened(O_WRONLY), "w");
    CHECK(stream && fwrite(data, BYTES, 1, stream) == 1 && fclose(stream) == 0);
    expect("written twice", 1);
    fd = opened(O_WRONLY);
    half(fd, 1);
    CHECK(close(fd) == 0);
    fd = opened(O_WRONLY);
    half(fd, 0);
    half(fd, 1);
    CHECK(close(fd) == 0);
}

/* Something else happens to the file, or may, between its halves. */
static void disturbed(const char *what, void (*act)(int))
{
    expect(what, 0);
    int fd = opened(O_RDWR);
    half(fd, 0);
    act(fd);
    half(fd, 1);
    CHECK(close(fd) == 0);
}

static void seek_back(int fd)
{
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "x", 1) == 1);
    CHECK(lseek(fd, HALF, SEEK_SET) == HALF);
}
static void hole(int fd) { CHECK(lseek(fd, 10, SEEK_CUR) > 0); }
static void elsewhere(int fd) { CHECK(pwrite(fd, "x", 1, 3) == 1); }
static void copied(int fd) { CHECK(close(dup(fd)) == 0); }
static void cut(int fd) { CHECK(ftruncate(fd, HALF) == 0); }
static void cut_by_name(int fd) { (void)fd; CHECK(truncate(name, HALF) == 0); }
static void unseen(int fd)
{
    CHECK(syscall(SYS_write, fd, "x", 1) == 1);
}
static void printed(int fd) { CHECK(dprintf(fd, "%d", 5) == 1); }
static void failed(int fd)
{
    void *volatile nothing = NULL;
    CHECK(write(fd, nothing, 10) == -1 && errno == EFAULT);
}
static void mapped(int fd)
{
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    p[5] = 'x';
    CHECK(munmap(p, 4096) == 0);
}
static void second(int fd)
{
    int other = open(name, O_WRONLY);
    (void)fd;
    CHECK(other >= 0 && pwrite(other, "x", 1, 3) == 1 && close(other) == 0);
}
static void sent(int fd)
{
    int from = open("/proc/self/exe", O_RDONLY);
    CHECK(from >= 0 && sendfile(fd, from, NULL, 3) == 3 && close(from) == 0);
}
static void asynchronous(int fd)
{
    struct aiocb block = { .aio_fildes = fd, .aio_buf = "x", .aio_nbytes = 1, .aio_offset = 2 };
    const struct aiocb *const one[] = { &block };
    CHECK(aio_write(&block) == 0 && aio_suspend(one, 1, NULL) == 0 && aio_return(&block) == 1);
}
static void by_child(int fd)
{
    int status;
    pid_t child = fork();
    if (child == 0) _exit(pwrite(fd, "x", 1, 3) == 1 ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}
static void by_spawned(int fd)
{
    char *arguments[] = { "sh", "-c", "true", NULL };
    int status;
    pid_t child;
    (void)fd;
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}
static void by_command(int fd) { (void)fd; CHECK(system("true") == 0); }
static void by_vfork(int fd)
{
    int status;
    char *arguments[] = { "true", NULL };
    pid_t child = vfork();
    (void)fd;
    if (child == 0) { execv("/bin/true", arguments); _exit(1); }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void not_from_the_start(void)
{
    expect("a file that has something", 0);
    int fd = opened(O_WRONLY);
    half(fd, 0);
    half(fd, 1);
    CHECK(syscall(SYS_close, fd) == 0);
    CHECK(open(name, O_WRONLY) == fd && lseek(fd, 0, SEEK_END) == BYTES);
    half(fd, 1);
    CHECK(close(fd) == 0);
    expect("a stream that goes back", 0);
    FILE *stream = fopen(name, "w");
    CHECK(stream && fwrite(data, BYTES, 1, stream) == 1 && fseek(stream, 3, SEEK_SET) == 0);
    CHECK(fputc('x', stream) == 'x' && fclose(stream) == 0);
    expect("two threads", 0);
    for (int i = 0; i < 2; i++) {
        /* In whatever order they write, one of them may not know it. */
        pthread_t one, other;
        fd = opened(O_WRONLY);
        CHECK(pthread_create(&one, NULL, write_half, &fd) == 0);
        CHECK(pthread_create(&other, NULL, write_half, &fd) == 0);
        CHECK(pthread_join(one, NULL) == 0 && pthread_join(other, NULL) == 0);
        elsewhere(fd);
        CHECK(close(fd) == 0);
    }
}

int main(int argc, char **argv)
{
    for (int i = 0; i < BYTES; i++) data[i] = (char)(i * 31 + i / 251);
    CHECK(MPI_Init(&argc, &argv) == 0);
    in_order();
    disturbed("seek back", seek_back);
    disturbed("a hole", hole);
    disturbed("another place", elsewhere);
    disturbed("dup", copied);
    disturbed("ftruncate", cut);
    disturbed("truncate", cut_by_name);
    disturbed("an unseen write", unseen);
    disturbed("dprintf", printed);
    disturbed("a failure", failed);
    disturbed("a mapping", mapped);
    disturbed("a second descriptor", second);
    disturbed("sendfile", sent);
    disturbed("aio", asynchronous);
    disturbed("fork", by_child);
    disturbed("posix_spawn", by_spawned);
    disturbed("system", by_command);
    disturbed("vfork", by_vfork);
    not_from_the_start();
    mark("end");
    return MPI_Finalize();
}
