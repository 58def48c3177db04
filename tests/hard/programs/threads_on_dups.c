/* Two threads run collectives on two duplicates of the world, in an order that differs from rank to
 * rank; a counter over both would differ, too. argv[1]: the level of thread support, 0 (SINGLE) to
 * 3 (MULTIPLE); libraries do so below MULTIPLE as well. argv[2] "turns": threads take turns, and
 * which one makes a call differs from rank to rank. */
#include <pthread.h>
#include "sim.h"

enum { CALLS = 400, STEPS = 300 };
static MPI_Comm a, b;
static sim_t sim;

static void *other(void *unused) {
  for (int i = 0; i < CALLS; i++) {
    int x = i, y;
    if (i % 100 == sim.rank * 20) usleep(2000);
    MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_MAX, b);
  }
  return unused;
}

static void *one_step(void *unused) {
  sim_step(&sim, a);
  return unused;
}

static void in_turns(void) {
  for (int s = 0; s < 200; s++) {
    pthread_t thread;
    if ((s + sim.rank) % 2) {
      if (pthread_create(&thread, NULL, one_step, NULL)) sim_fail("cannot make", "a thread");
      pthread_join(thread, NULL);
    } else {
      one_step(NULL);
    }
    if (sim.step % 50 == 0) sim_checkpoint(&sim);
  }
}

static void at_once(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, other, NULL)) sim_fail("cannot make", "a thread");
  for (int s = 0; s < STEPS; s++) {
    if (s % 50 == sim.rank * 20) usleep(1500);
    sim_step(&sim, a);
    if (sim.step % 50 == 0) {
      sim_checkpoint(&sim);
      MPI_Barrier(a);
    }
  }
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                  MPI_THREAD_MULTIPLE};
  int wanted = levels[argc > 1 ? atoi(argv[1]) : 3], granted;
  MPI_Init_thread(&argc, &argv, wanted, &granted);
  if (granted != wanted) { printf("no threads\n"); MPI_Finalize(); return 0; }
  MPI_Comm_dup(MPI_COMM_WORLD, &a);
  MPI_Comm_dup(MPI_COMM_WORLD, &b);
  sim_init(&sim);
  if (argc > 2) in_turns();
  else at_once();
  sim_finish(&sim, a);
  MPI_Finalize();
  return 0;
}
