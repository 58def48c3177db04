/* What the operations share: choice, output, names, descriptors. See differ.c. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS = 5, STREAMS = 3 };
enum { WIDE = 10000, FURTHER = 20000 }; /* sequences from there on do more */

static uint64_t state;
static int fds[FDS];
static FILE *streams[STREAMS];
static char top[PATH_MAX], home[PATH_MAX]; /* the prefix; the sequence's directory */
static FILE *out;
static int step, number;
static int slashes = 1; /* 0 for two names: which error comes first is not worth a comparison */

static unsigned pick(unsigned n)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ (z >> 31)) % n);
}

static void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(out, format, list);
    va_end(list);
}

/* The result of a call: errno counts only when it failed. */
static void result(long value, int failed)
{
    if (failed) say(" = %ld %s\n", value, strerrorname_np(errno));
    else say(" = %ld\n", value);
}

static uint32_t hash(const void *data, size_t bytes)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * 16777619u;
    return h;
}

/* A name relative to the sequence's directory. */
static const char *name(void)
{
    static const char *const all[] = {
        "c0", "c1", "c2", "state", "state_old", "n0", "n1", "sub/c0", "sub/c1", "sub/n0",
        "deep/er/c0", "deep/er/n0", "link", "c1.tmp",
    };
    return all[pick(sizeof all / sizeof *all)];
}

static const char *directory(void)
{
    static const char *const all[] = { "sub", "deep", "deep/er", "c_dir", "n_dir", "." };
    return all[pick(sizeof all / sizeof *all)];
}

/* One of the spellings of a name; buffers go round. The working directory may be "sub". */
static const char *spelled(const char *plain)
{
    static char buffers[4][2 * PATH_MAX];
    static int turn;
    char *to = buffers[turn++ % 4], cwd[PATH_MAX];
    int deep = getcwd(cwd, sizeof cwd) && strcmp(cwd, home) != 0;
    switch (pick(number < WIDE ? 6 : 9)) {
    case 6: snprintf(to, sizeof buffers[0], "%s/by%d/%s", top, number, plain); break;
    case 7: snprintf(to, sizeof buffers[0], "/proc/self/cwd/%s%s", deep ? "../" : "", plain); break;
    case 8: snprintf(to, sizeof buffers[0], "%s/%s%s", home, plain, slashes ? "/" : ""); break;
    case 0: snprintf(to, sizeof buffers[0], "%s/%s", home, plain); break;
    case 1: snprintf(to, sizeof buffers[0], "%s./%s", deep ? ".././" : "", plain); break;
    case 2: snprintf(to, sizeof buffers[0], "%s/./sub/..//%s", home, plain); break;
    default: snprintf(to, sizeof buffers[0], "%s%s", deep ? "../" : "", plain);
    }
    say(" %s", plain);
    return to;
}

/* Mostly one that is open. */
static int slot(void)
{
    int s = pick(FDS);
    for (int i = 0; i < FDS && fds[s] < 0 && pick(6); i++) s = (s + 1) % FDS;
    say(" #%d", s);
    return s;
}
static int stream_slot(void) { int s = pick(STREAMS); say(" $%d", s); return s; }

static void keep(int s, int fd)
{
    if (fd >= 0) {
        if (fds[s] >= 0) close(fds[s]);
        fds[s] = fd;
    }
    result(fd >= 0 ? 0 : -1, fd < 0);
}

static void told(const struct stat *s)
{
    /* The number of links may differ: the deletion of another name may be deferred. */
    say(" {%o %ld%s}", s->st_mode, S_ISDIR(s->st_mode) ? 0 : (long)s->st_size,
        s->st_mtime > 0 && s->st_mtime < 1500000000 ? " set" : "");
}

