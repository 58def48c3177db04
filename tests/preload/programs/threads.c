/* Threads that open, write and close while others fork; threads that are cancelled. */
#include "check.h"

enum { THREADS = 8, ROUNDS = 300, CHILDREN = 40 };

static void *worker(void *number)
{
    char name[32];
    struct stat s;
    snprintf(name, sizeof name, "c_t%ld", (long)(intptr_t)number);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644), copy = dup(fd);
        CHECK(fd >= 0 && copy >= 0 && write(copy, "data", 4) == 4);
        CHECK(close(fd) == 0 && close(copy) == 0 && stat(name, &s) == 0 && s.st_size == 4);
    }
    return NULL;
}

static void *blocked_write(void *fd)
{
    char page[65536] = { 0 };
    for (;;) if (write((int)(intptr_t)fd, page, sizeof page) < 0) return NULL;
}

static void *blocked_open(void *name)
{
    open(name, O_WRONLY);
    return NULL;
}

static void *cached_writes(void *name)
{
    for (;;) {
        FILE *s = fopen(name, "w");
        if (s) { fputs("x", s); fclose(s); }
        int fd = open(name, O_WRONLY);
        if (write(fd, "y", 1) != 1 || close(fd)) abort();
    }
}

static void cancelled(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0);
    usleep(20000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int status, ends[2];
    CHECK(MPI_Init(&argc, &argv) == 0);
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            int fd = open("c_plain", O_CREAT | O_RDWR, 0644);
            _exit(fd < 0 || close(fd) || close(dup(1)));
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    /* The engine's answer is out of date when the file is opened: it is asked once more. */
    int fd = open("c_moves", O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0 && close(fd) == 0 && in_cache("c_moves"));
    CHECK(open("c_nowhere", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(pipe(ends) == 0 && mkfifo("queue", 0600) == 0);
    cancelled(blocked_write, (void *)(intptr_t)ends[1]);
    cancelled(blocked_open, "queue");
    for (int i = 0; i < 20; i++) cancelled(cached_writes, "c_cancel");
    CHECK(MPI_Finalize() == 0);
    puts("through");
    return 0;
}
