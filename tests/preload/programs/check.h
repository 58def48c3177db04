/* For programs that check themselves: CHECK ends the program and says what was wrong. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Barrier(int);

#define CHECK(what) do { if (!(what)) { int e_ = errno; \
    fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, e_); exit(1); } } while (0)
#define SYMBOL(type, name) ((type)symbol(name))

/* A function by its name, as the program would be bound to it. */
__attribute__((unused)) static void *symbol(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) { fprintf(stderr, "no symbol %s\n", name); exit(1); }
    return found;
}

/* Is there a file in the cache, as the kernel sees it? */
__attribute__((unused)) static int in_cache(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("FAKE_CACHE"), name);
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* Is there a file in the prefix, as the kernel sees it? */
__attribute__((unused)) static int in_prefix(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("FAKE_PREFIX"), name);
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* A line in the engine's log, between its own. */
__attribute__((unused)) static void mark(const char *text)
{
    int fd = open(getenv("FAKE_LOG"), O_WRONLY | O_APPEND);
    CHECK(fd >= 0 && dprintf(fd, "-- %s\n", text) > 0 && close(fd) == 0);
}
