/* Whoever sends a signal to himself, or lets one come that waits, counts on it that the handler has
 * run when the call returns; also while other threads are in malloc, which the engine needs. */
#include "check.h"
#include <signal.h>
#include <stdatomic.h>

enum { TIMES = 2000, THREADS = 3 };

static volatile sig_atomic_t handled;
static atomic_int over;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static void *allocate(void *nothing)
{
    void *blocks[64] = {NULL};
    for (unsigned i = 0; !over; i++) {
        free(blocks[i % 64]);
        CHECK((blocks[i % 64] = malloc(1 + i % 5000)) != NULL);
    }
    for (unsigned i = 0; i < 64; i++) free(blocks[i]);
    return nothing;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    sigset_t one, none;
    CHECK(MPI_Init(&argc, &argv) == 0);
    CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &one, &none) == 0); /* the threads do not take it */
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, allocate, NULL) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &none, NULL) == 0);
    for (int i = 0; i < TIMES; i++) {
        handled = 0;
        CHECK(raise(SIGUSR1) == 0 && handled == 1);
        CHECK(kill(getpid(), SIGUSR1) == 0 && handled == 2);
        CHECK(pthread_sigmask(SIG_BLOCK, &one, NULL) == 0);
        CHECK(raise(SIGUSR1) == 0 && handled == 2);
        CHECK(pthread_sigmask(SIG_UNBLOCK, &one, NULL) == 0 && handled == 3);
    }
    over = 1;
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    return MPI_Finalize();
}
