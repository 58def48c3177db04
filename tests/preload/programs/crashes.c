/* A handler of SIGABRT looks for files while its thread holds malloc, as the tracers of run-time
 * systems do, and ends the process: status 5, or SIGALRM ends it if it hangs. argv[1]: the working
 * directory. */
#include "check.h"
#include <signal.h>
#include <sys/xattr.h>

static const char *const NAMES[] = {
    "such", "./such", "no/such", "../such", "no/../such", "/such", "/no/such", "/usr/../no/such",
    "/proc/self/exe/such",
};

static void look(const char *name)
{
    static char buffer[4096];
    static struct stat found;
    static struct statfs system;
    static struct statvfs vfs;
    static struct timeval times[2];
    char *const none[] = {NULL};
    int fd = open(name, O_RDONLY);
    if (fd >= 0) _exit(6);
    if (openat(AT_FDCWD, name, O_RDONLY) >= 0 || fopen(name, "r")) _exit(6);
    if (!access(name, F_OK) || !stat(name, &found) || !lstat(name, &found)) _exit(6);
    if (!fstatat(AT_FDCWD, name, &found, 0) || !unlink(name) || !rmdir(name)) _exit(6);
    if (!rename(name, "other") || !rename("other", name) || !link(name, "other")) _exit(6);
    if (readlink(name, buffer, sizeof buffer) >= 0 || realpath(name, buffer)) _exit(6);
    if (!truncate(name, 0) || !chmod(name, 0644) || !chown(name, 0, 0)) _exit(6);
    if (!utimes(name, times) || getxattr(name, "user.x", buffer, 1) >= 0) _exit(6);
    if (!statfs(name, &system) || !statvfs(name, &vfs) || !chdir(name)) _exit(6);
    if (!execv(name, none) || !mkdir("no/such", 0777)) _exit(6);
}

static void tell(int number)
{
    (void)number;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) look(NAMES[i]);
    _exit(5);
}

/* See exits.c. What fopen(3) needs, the thread has by itself. */
static void corrupt_the_heap(void)
{
    void *volatile blocks[3];
    for (int i = 0; i < 3; i++) CHECK((blocks[i] = malloc(4000)) != NULL);
    FILE *stream = fopen("/dev/null", "r");
    CHECK(stream && fclose(stream) == 0);
    free(blocks[0]);
    void *volatile *links = blocks[0];
    links[0] = links[1] = blocks[2];
    free(blocks[1]);
}

int main(int argc, char **argv)
{
    CHECK(MPI_Init(&argc, &argv) == 0);
    CHECK(argc > 1 && chdir(argv[1]) == 0 && signal(SIGABRT, tell) != SIG_ERR);
    alarm(60);
    corrupt_the_heap();
    return 1;
}
