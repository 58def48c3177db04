/* Does to a logged file what is named, and prints what that is in the words of the fake engine:
 * deed, call of MPI-IO and sync points, first byte, the byte behind the last one. Where a call
 * reads or writes, and what it moves, is computed here. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Barrier(uintptr_t);
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);

static char data[4096];
static int points;

static void expect(char deed, long start, long end)
{
    printf("access %c0@%d %ld %ld\n", deed, points, start, end);
}

static void check(long got, long wanted, int line)
{
    if (got != wanted) { fprintf(stderr, "line %d: %ld, not %ld\n", line, got, wanted); abort(); }
}
#define CHECK(call, wanted) check((long)(call), (long)(wanted), __LINE__)

static void barrier(void) { MPI_Barrier(0); points++; }

static void writes(int fd)
{
    struct iovec parts[] = { { data, 10 }, { data + 100, 20 } };
    CHECK(write(fd, data, 100), 100); expect('w', 0, 100);
    CHECK(lseek(fd, 50, SEEK_CUR), 150);
    CHECK(writev(fd, parts, 2), 30); expect('w', 150, 180);
    CHECK(pwrite(fd, data, 7, 1000), 7); expect('w', 1000, 1007);
    CHECK(pwritev(fd, parts, 2, 2000), 30); expect('w', 2000, 2030);
    CHECK(pwritev2(fd, parts, 2, 3000, 0), 30); expect('w', 3000, 3030);
    CHECK(lseek(fd, 500, SEEK_SET), 500);
    CHECK(pwritev2(fd, parts, 2, -1, 0), 30); expect('w', 500, 530);
    barrier();
    CHECK(write(fd, data, 5), 5); CHECK(write(fd, data, 6), 6); expect('w', 530, 541);
    CHECK(pwrite(fd, data, 0, 9), 0);
    CHECK(pwrite(-1, data, 1, 9), -1);
}

static void reads(int fd)
{
    struct iovec parts[] = { { data, 10 }, { data + 100, 20 } };
    CHECK(pwrite(fd, data, 1000, 0), 1000); expect('w', 0, 1000);
    CHECK(read(fd, data, 100), 100); expect('r', 0, 100);
    CHECK(lseek(fd, 200, SEEK_SET), 200);
    CHECK(__read_chk(fd, data, 100, sizeof data), 100); expect('r', 200, 300);
    CHECK(pread(fd, data, 50, 700), 50); expect('r', 700, 750);
    CHECK(__pread_chk(fd, data, 50, 800, sizeof data), 50); expect('r', 800, 850);
    CHECK(lseek(fd, 400, SEEK_SET), 400);
    CHECK(readv(fd, parts, 2), 30); expect('r', 400, 430);
    CHECK(preadv(fd, parts, 2, 600), 30); expect('r', 600, 630);
    CHECK(preadv2(fd, parts, 2, 100, 0), 30); expect('r', 100, 130);
    CHECK(preadv2(fd, parts, 2, -1, 0), 30); expect('r', 430, 460);
    CHECK(pread(fd, data, 500, 900), 100); expect('r', 900, 1000); expect('s', 0, 1000);
    CHECK(pread(fd, data, 500, 5000), 0);
}

static void sizes(int fd)
{
    struct stat found;
    struct statx more;
    CHECK(pwrite(fd, data, 10, 90), 10); expect('w', 90, 100);
    CHECK(lseek(fd, -3, SEEK_END), 97); expect('s', 0, 100);
    CHECK(fstat(fd, &found), 0); expect('s', 0, 100);
    CHECK(fstatat(fd, "", &found, AT_EMPTY_PATH), 0); expect('s', 0, 100);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &more), 0); expect('s', 0, 100);
    CHECK(ftruncate(fd, 60), 0); expect('c', 0, 60);
    CHECK(ftruncate(fd, -1), -1);
    CHECK(posix_fallocate(fd, 50, 100), 0); expect('g', 0, 150);
    CHECK(fallocate(fd, 0, 100, 100), 0); expect('g', 0, 200);
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 5000), 0);
    CHECK(fstat(fd, &found), 0); CHECK(found.st_size, 200); expect('s', 0, 200);
}

static void copies(int fd)
{
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0644), pipes[2];
    loff_t from = 5, to = 300;
    CHECK(write(other, data, 100), 100);
    CHECK(lseek(other, 0, SEEK_SET), 0);
    CHECK(sendfile(fd, other, NULL, 40), 40); expect('w', 0, 40);
    CHECK(copy_file_range(other, &from, fd, &to, 20, 0), 20); expect('w', 300, 320);
    CHECK(pipe(pipes), 0);
    CHECK(write(pipes[1], data, 30), 30);
    to = 500;
    CHECK(splice(pipes[0], NULL, fd, &to, 30, 0), 30); expect('w', 500, 530);
    from = 10;
    CHECK(sendfile(other, fd, &from, 15), 15); expect('r', 10, 25);
    close(other);
}

static void wait_for(struct aiocb *block, ssize_t wanted)
{
    const struct aiocb *all[] = { block };
    while (aio_error(block) == EINPROGRESS) aio_suspend(all, 1, NULL);
    CHECK(aio_return(block), wanted);
}

static void later(int fd)
{
    struct aiocb one = { .aio_fildes = fd, .aio_buf = data, .aio_nbytes = 50, .aio_offset = 70 };
    struct aiocb two = one, *list[] = { &two, NULL };
    CHECK(aio_write(&one), 0); expect('w', 70, 120);
    wait_for(&one, 50);
    one.aio_offset = 80;
    one.aio_nbytes = 10;
    CHECK(aio_read(&one), 0); expect('r', 80, 90);
    wait_for(&one, 10);
    two.aio_offset = 400;
    two.aio_lio_opcode = LIO_WRITE;
    CHECK(lio_listio(LIO_WAIT, list, 2, NULL), 0); expect('w', 400, 450);
}

static int shared;

static void *some(void *number)
{
    for (long at = 0; at < 200; at++)
        CHECK(pwrite(shared, data, 10, ((long)number * 1000 + at) * 20), 10);
    return NULL;
}

static void threads(int fd)
{
    pthread_t all[4];
    shared = fd;
    for (long i = 0; i < 4; i++) pthread_create(&all[i], NULL, some, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    for (long i = 0; i < 4; i++)
        for (long at = 0; at < 200; at++) {
            long start = (i * 1000 + at) * 20;
            expect('w', start, start + 10);
        }
}

static void dups(int fd)
{
    int two = dup(fd), three = dup2(fd, 77);
    close(fd);
    CHECK(write(two, data, 10), 10); expect('w', 0, 10);
    CHECK(lseek(three, 10, SEEK_CUR), 20);
    CHECK(write(three, data, 10), 10);
    close(three);
    int four = open("other", O_RDWR | O_CREAT, 0644);
    CHECK(write(four, data, 10), 10);
    CHECK(write(two, data, 10), 10); expect('w', 20, 40);
    close(four);
    close(two);
}

static void forks(int fd)
{
    pid_t child = fork();
    if (!child) { CHECK(pwrite(fd, data, 10, 100), 10); _exit(0); }
    CHECK(waitpid(child, NULL, 0), child);
    CHECK(pwrite(fd, data, 10, 200), 10); expect('w', 200, 210);
}

static void maps(int fd)
{
    CHECK(ftruncate(fd, 4096), 0); expect('c', 0, 4096);
    char *all = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    all[7] = 1;
    munmap(all, 4096);
}

static void streams(int fd)
{
    FILE *stream = fdopen(dup(fd), "w");
    CHECK(pwrite(fd, data, 10, 900), 10); expect('w', 900, 910);
    fputs("text", stream);
    CHECK(fseek(stream, 100, SEEK_SET), 0); expect('w', 0, 4);
    fwrite(data, 1, 3000, stream);
    fflush(stream);
    fputs("end", stream);
    fclose(stream); expect('w', 100, 3103);
    barrier();
    stream = fopen("l_file", "a");
    setvbuf(stream, NULL, _IONBF, 0);
    CHECK(fputs("more", stream), 1); expect('w', 3103, 3107);
    fclose(stream);
}

static void stream_reads(int fd)
{
    FILE *stream = fdopen(dup(fd), "w+");
    fputs("text", stream);
    fclose(stream); expect('w', 0, 4);
}

static void appends(int fd)
{
    int end = open("l_file", O_WRONLY | O_APPEND);
    CHECK(pwrite(fd, data, 100, 0), 100);
    CHECK(write(end, data, 10), 10); expect('w', 0, 110);
    CHECK(pwrite(fd, data, 100, 200), 100);
    CHECK(write(end, data, 10), 10); CHECK(write(end, data, 10), 10); expect('w', 200, 320);
    close(end);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(int); } all[] = {
        { "writes", writes }, { "reads", reads }, { "sizes", sizes }, { "copies", copies },
        { "later", later }, { "threads", threads }, { "dups", dups }, { "forks", forks },
        { "maps", maps }, { "streams", streams }, { "appends", appends },
        { "stream_reads", stream_reads },
    };
    (void)argc;
    MPI_Init(NULL, NULL);
    int fd = open("l_file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, argv[1])) all[i].run(fd);
    close(fd);
    fflush(stdout);
    _exit(0);
}
