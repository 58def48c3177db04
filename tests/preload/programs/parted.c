/* A file of which this node has a part: what each call does that needs more than that. The bytes
 * from 1000 to 2000 are another node's, by FAKE_AWAY, and lie in the file FAKE_EVACUATE as 'p'. Of
 * this node are those up to 1000, 'm'; with FAKE_SIZE the file is 2000 bytes long. Calls are made
 * on descriptors of their own, since one that has moved has all. */
#include "check.h"
#include <aio.h>
#include <sys/resource.h>
#include <sys/sendfile.h>

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);

static char data[4096];

/* On the file that is whole? As the kernel sees it. */
static int has_moved(int fd)
{
    char name[64], self[4096] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    CHECK(readlink(name, self, sizeof self - 1) > 0);
    return !strstr(self, "parted_");
}

static int opened(int flags)
{
    int fd = open("parted_file", O_RDWR | O_CREAT | O_TRUNC | flags, 0644);
    memset(data, 'm', sizeof data);
    CHECK(fd >= 0 && pwrite(fd, data, 1000, 0) == 1000 && !has_moved(fd));
    memset(data, 0, sizeof data);
    return fd;
}

static int all(char what, long from, long to)
{
    for (long at = from; at < to; at++) if (data[at] != what) return 0;
    return 1;
}

#define READ(name, call, bytes) static ssize_t name(int fd, long at, long bytes) { return call; }
READ(by_read, lseek(fd, at, SEEK_SET) == at ? read(fd, data, n) : -1, n)
READ(by_read_chk, lseek(fd, at, SEEK_SET) == at ? __read_chk(fd, data, n, sizeof data) : -1, n)
READ(by_pread, pread(fd, data, n, at), n)
READ(by_pread_chk, __pread_chk(fd, data, n, at, sizeof data), n)
static struct iovec *halves(long n)
{
    static struct iovec parts[2];
    parts[0] = (struct iovec){ data, n / 2 };
    parts[1] = (struct iovec){ data + n / 2, n - n / 2 };
    return parts;
}
READ(by_readv, lseek(fd, at, SEEK_SET) == at ? readv(fd, halves(n), 2) : -1, n)
READ(by_preadv, preadv(fd, halves(n), 2, at), n)
READ(by_preadv2, preadv2(fd, halves(n), 2, at, 0), n)
READ(by_own_place, lseek(fd, at, SEEK_SET) == at ? preadv2(fd, halves(n), 2, -1, 0) : -1, n)

static ssize_t by_aio(int fd, long at, long n)
{
    struct aiocb one = { .aio_fildes = fd, .aio_buf = data, .aio_nbytes = n, .aio_offset = at };
    const struct aiocb *list[] = { &one };
    if (aio_read(&one)) return -1;
    while (aio_error(&one) == EINPROGRESS) aio_suspend(list, 1, NULL);
    return aio_return(&one);
}

static ssize_t by_list(int fd, long at, long n)
{
    struct aiocb one = { .aio_fildes = fd, .aio_buf = data, .aio_nbytes = n, .aio_offset = at,
                         .aio_lio_opcode = LIO_READ };
    struct aiocb *list[] = { &one };
    return lio_listio(LIO_WAIT, list, 1, NULL) ? -1 : aio_return(&one);
}

static ssize_t by_copy(int fd, long at, long n, int how)
{
    off_t from = at;
    int pipes[2], to = open("copied", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(to >= 0 && pipe(pipes) == 0);
    ssize_t done = how == 0 ? sendfile(to, fd, &from, n)
                 : how == 1 ? copy_file_range(fd, &from, to, NULL, n, 0)
                 : splice(fd, &from, pipes[1], NULL, n, 0);
    int code = errno;
    if (done > 0) CHECK(how == 2 ? read(pipes[0], data, done) == done
                                 : pread(to, data, done, 0) == done);
    close(to);
    close(pipes[0]);
    close(pipes[1]);
    errno = code;
    return done;
}
READ(by_sendfile, by_copy(fd, at, n, 0), n)
READ(by_range, by_copy(fd, at, n, 1), n)
READ(by_splice, by_copy(fd, at, n, 2), n)

static ssize_t by_map(int fd, long at, long n)
{
    char *start = mmap(NULL, at + n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (start == MAP_FAILED) return -1;
    memcpy(data, start + at, n);
    return munmap(start, at + n) ? -1 : n;
}

static ssize_t (*const reads[])(int, long, long) = {
    by_read, by_read_chk, by_pread, by_pread_chk, by_readv, by_preadv, by_preadv2, by_own_place,
    by_aio, by_list, by_sendfile, by_range, by_splice, by_map,
};

/* What is here is read here; what is not, in part or as a whole, from the file that is whole. */
static void read_all(void)
{
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        int fd = opened(0);
        CHECK(reads[i](fd, 100, 800) == 800 && all('m', 0, 800) && !has_moved(fd));
        CHECK(reads[i](fd, 900, 200) == 200 && all('m', 0, 100) && all('p', 100, 200));
        CHECK(has_moved(fd) && reads[i](fd, 1500, 100) == 100 && all('p', 0, 100));
        CHECK(pwrite(fd, "w", 1, 5) == 1 && pread(fd, data, 1, 5) == 1 && data[0] == 'w');
        CHECK(close(fd) == 0);
        /* The node has nothing there at all. */
        CHECK((fd = opened(0)) >= 0 && reads[i](fd, 1500, 100) == 100 && all('p', 0, 100));
        CHECK(has_moved(fd) && close(fd) == 0);
    }
    int fd = opened(0);
    CHECK(pread(fd, data, 10, 2000) == 0 && pread(fd, data, 10, 5000) == 0 && !has_moved(fd));
    CHECK(pread(fd, data, 4000, 1999) == 1 && data[0] == 'p' && has_moved(fd));
    CHECK(close(fd) == 0);
}

static void read_none(void)
{
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        int fd = opened(0);
        CHECK(reads[i](fd, 900, 200) == -1 && errno == EIO && !has_moved(fd));
        CHECK(reads[i](fd, 100, 800) == 800 && all('m', 0, 800) && close(fd) == 0);
    }
}

static void sizes(void)
{
    struct stat found;
    struct statx more;
    int fd = opened(0);
    CHECK(fstat(fd, &found) == 0 && found.st_size == 2000);
    CHECK(fstatat(fd, "", &found, AT_EMPTY_PATH) == 0 && found.st_size == 2000);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &more) == 0 && more.stx_size == 2000);
    CHECK(lseek(fd, -10, SEEK_END) == 1990 && lseek(fd, 0, SEEK_CUR) == 1990);
    CHECK(lseek(fd, -2001, SEEK_END) == -1 && errno == EINVAL);
    CHECK(pwrite(fd, "x", 1, 2999) == 1);
    CHECK(fstat(fd, &found) == 0 && found.st_size == 3000 && lseek(fd, 0, SEEK_END) == 3000);
    CHECK(!has_moved(fd) && close(fd) == 0);
}

/* 512-byte blocks on this node. */
static long blocks(int fd)
{
    struct stat found;
    CHECK(fstat(fd, &found) == 0);
    return found.st_blocks;
}

static void rooms(void)
{
    int fd = opened(0);
    struct stat found;
    CHECK(posix_fallocate(fd, 0, 1500) == 0 && fallocate(fd, 0, 0, 2000) == 0);
    CHECK(lseek(fd, 0, SEEK_END) == 2000);
    CHECK(posix_fallocate(fd, 0, 1 << 20) == 0 && fallocate(fd, 0, 1 << 20, 1 << 20) == 0);
    CHECK(fstat(fd, &found) == 0 && found.st_size == 2 << 20);
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 3 << 20) == 0 && blocks(fd) < 100);
    CHECK(fstat(fd, &found) == 0 && found.st_size == 2 << 20);
    CHECK(posix_fallocate(fd, 0, 0) == EINVAL);
    CHECK(fallocate(fd, 0, -1, 10) == -1 && errno == EINVAL);
    CHECK(ftruncate(fd, 100) == 0 && !has_moved(fd) && close(fd) == 0);
}

/* Each takes a file that is whole. */
static void whole(void)
{
    struct iovec part = { data, 1 };
    int fd = opened(0);
    CHECK(lseek(fd, 0, SEEK_HOLE) >= 2000 && has_moved(fd) && close(fd) == 0);
    CHECK((fd = opened(0)) >= 0 && lseek(fd, 1200, SEEK_DATA) == 1200 && has_moved(fd));
    CHECK(close(fd) == 0 && (fd = opened(0)) >= 0);
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 10);
    CHECK(has_moved(fd) && close(fd) == 0);
    CHECK((fd = opened(0)) >= 0);
    char *start = mmap(NULL, 2000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(start != MAP_FAILED && has_moved(fd) && start[0] == 'm' && start[1999] == 'p');
    CHECK(munmap(start, 2000) == 0 && close(fd) == 0);
    CHECK((fd = opened(0)) >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && !has_moved(fd));
    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0 && has_moved(fd));
    CHECK(fcntl(fd, F_GETFL) & O_APPEND && close(fd) == 0);
    CHECK((fd = opened(0)) >= 0 && pwritev2(fd, &part, 1, -1, RWF_APPEND) == 1 && has_moved(fd));
    CHECK(ftruncate(fd, 2000) == 0 && close(fd) == 0);
    FILE *stream = fdopen(fd = opened(0), "r+");
    CHECK(stream && has_moved(fd) && fread(data, 1, 4096, stream) == 2000 && all('p', 1000, 2000));
    CHECK(fclose(stream) == 0 && (stream = fopen("parted_file", "w+")));
    CHECK(has_moved(fileno(stream)) && fclose(stream) == 0);
}

/* What is done through numbers that no hook could tell is done to a file that is whole. */
static void beyond(void)
{
    enum { BEYOND = 70000 };
    struct rlimit limit = { BEYOND + 10, BEYOND + 10 };
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return; /* not allowed here */
    for (int way = 0; way < 2; way++) {
        int fd = opened(0), high = way ? fcntl(fd, F_DUPFD, BEYOND) : dup2(fd, BEYOND);
        CHECK(high == BEYOND && has_moved(fd) && has_moved(high));
        CHECK(pread(high, data, 10, 1500) == 10 && all('p', 0, 10));
        CHECK(close(high) == 0 && close(fd) == 0);
    }
}

/* All descriptors of a file move together, whoever of them has asked. */
static void together(void)
{
    int fd = opened(0), two = dup(fd), other = open("parted_file", O_RDWR);
    CHECK(pwrite(other, "123", 3, 10) == 3 && lseek(two, 500, SEEK_SET) == 500);
    CHECK(pread(other, data, 100, 1100) == 100 && all('p', 0, 100));
    CHECK(has_moved(fd) && has_moved(two) && has_moved(other));
    CHECK(read(fd, data, 600) == 600 && all('m', 0, 500) && all('p', 500, 600));
    CHECK(pread(two, data, 3, 10) == 3 && !memcmp(data, "123", 3));
    CHECK(close(fd) == 0 && close(two) == 0 && close(other) == 0);
}

static int shared;

static void *writer(void *done)
{
    for (long at = 2000; !*(volatile int *)done; at += 8)
        CHECK(pwrite(shared, "threaded", 8, at) == 8);
    return NULL;
}

/* What threads write while the file moves is in one place or the other, and logged in the first. */
static void threads(void)
{
    int done = 0;
    pthread_t thread;
    shared = opened(0);
    CHECK(pthread_create(&thread, NULL, writer, &done) == 0);
    usleep(2000);
    CHECK(pread(shared, data, 10, 1500) == 10 && all('p', 0, 10) && has_moved(shared));
    usleep(2000);
    done = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    long end = lseek(shared, 0, SEEK_END);
    CHECK(end > 2000);
    for (long at = 2000; at < end; at += 8)
        CHECK(pread(shared, data, 8, at) == 8 && !memcmp(data, "threaded", 8));
    CHECK(close(shared) == 0);
}

/* What libc's threads write is there before the file moves. */
static void later(void)
{
    enum { WRITES = 40, BYTES = 1 << 18 };
    static char many[BYTES];
    struct aiocb all_of[WRITES], *list[WRITES];
    int fd = opened(0);
    memset(many, 'a', BYTES);
    for (int i = 0; i < WRITES; i++) {
        all_of[i] = (struct aiocb){ .aio_fildes = fd, .aio_buf = many, .aio_nbytes = BYTES,
                                    .aio_offset = 4096 + (off_t)i * BYTES,
                                    .aio_lio_opcode = LIO_WRITE };
        list[i] = &all_of[i];
        if (i < WRITES / 2) CHECK(aio_write(list[i]) == 0);
    }
    CHECK(lio_listio(LIO_NOWAIT, list + WRITES / 2, WRITES / 2, NULL) == 0);
    CHECK(pread(fd, data, 10, 1500) == 10 && all('p', 0, 10) && has_moved(fd));
    for (int i = 0; i < WRITES; i++) {
        while (aio_error(list[i]) == EINPROGRESS) usleep(100);
        CHECK(aio_return(list[i]) == BYTES);
        for (off_t at = 0; at < BYTES; at += 4096)
            CHECK(pread(fd, data, 4096, list[i]->aio_offset + at) == 4096 && all('a', 0, 4096));
    }
    CHECK(close(fd) == 0);
}

static int pipes[2];

static void *slow(void *fd)
{
    off_t at = 3000;
    CHECK(splice(pipes[0], NULL, *(int *)fd, &at, 4, 0) == 4);
    return NULL;
}

/* Other nodes have it moved; a call that is under way is waited for, however long it takes. */
static void asked(void)
{
    pthread_t thread;
    CHECK(pipe(pipes) == 0);
    pid_t child = fork(); /* before the file is open: it would move */
    if (child == 0) {
        usleep(400000);
        _exit(write(pipes[1], "slow", 4) != 4);
    }
    int fd = opened(0);
    CHECK(pthread_create(&thread, NULL, slow, &fd) == 0);
    usleep(10000);
    setenv("FAKE_MOVE_OUT", "1", 1);
    CHECK(MPI_Barrier(0) == 0 && has_moved(fd) && pthread_join(thread, NULL) == 0);
    CHECK(pread(fd, data, 4, 3000) == 4 && !memcmp(data, "slow", 4) && close(fd) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
}

/* The store has no room for this one. */
static void full(void)
{
    int fd = open("parted_full", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && !has_moved(fd) && pwrite(fd, "full", 4, 300) == 4 && has_moved(fd));
    CHECK(pread(fd, data, 4, 300) == 4 && !memcmp(data, "full", 4) && close(fd) == 0);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } cases[] = {
        { "read_all", read_all }, { "read_none", read_none }, { "sizes", sizes },
        { "rooms", rooms }, { "whole", whole }, { "together", together }, { "threads", threads },
        { "full", full }, { "later", later }, { "beyond", beyond }, { "asked", asked },
    };
    CHECK(argc > 1 && MPI_Init(NULL, NULL) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, argv[1])) cases[i].run();
    return MPI_Finalize();
}
