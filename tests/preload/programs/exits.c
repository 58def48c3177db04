/* Ends at once, a descriptor left open: how is the first argument. Children end by _exit before,
 * and that is no end of this process. Status 5, whatever happens. */
#include "check.h"
#include <signal.h>

static void leave(int number) { (void)number; _exit(5); }

/* glibc's free finds what is wrong here while it holds the lock of the arena, and aborts. */
static void corrupt_the_heap(void)
{
    void *volatile blocks[3];
    for (int i = 0; i < 3; i++) CHECK((blocks[i] = malloc(4000)) != NULL);
    free(blocks[0]);
    void *volatile *links = blocks[0]; /* where a free block has its neighbours in a list */
    links[0] = links[1] = blocks[2];
    free(blocks[1]);
}

static void end_in_children(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) _exit(3);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    child = vfork();
    if (child == 0) _exit(4);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
    child = syscall(SYS_fork); /* no handler of fork(2) is run */
    if (child == 0) _exit(6);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    CHECK(MPI_Init(&argc, &argv) == 0);
    int fd = open("c_left", O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0 && write(fd, "left", 4) == 4);
    end_in_children();
    CHECK(signal(SIGUSR1, leave) != SIG_ERR && signal(SIGABRT, leave) != SIG_ERR);
    mark("main ends");
    if (!strcmp(how, "finalized")) {
        CHECK(MPI_Finalize() == 0);
        _exit(5);
    }
    if (!strcmp(how, "_exit")) _exit(5);
    if (!strcmp(how, "_Exit")) _Exit(5);
    if (!strcmp(how, "quick_exit")) quick_exit(5);
    if (!strcmp(how, "handler")) raise(SIGUSR1);
    if (!strcmp(how, "in the engine")) open("c_raises", O_RDONLY);
    if (!strcmp(how, "in malloc")) corrupt_the_heap();
    return 1;
}
