/* A program of MPI_THREAD_MULTIPLE that makes its collective calls on communicators of its own:
 * argv[1] how, argv[2] steps, argv[3] steps from one checkpoint to the next, argv[4] the step after
 * whose checkpoint, and a calm time, rank 0 is killed. How:
 *   alone    one thread, a duplicate of the world
 *   backward one thread, all ranks in the opposite order
 *   made     one thread, a duplicate for each step, freed after it
 *   crossed  a second thread makes calls on a second duplicate all the time
 *   sits     a second thread waits in a call on a second duplicate until rank 0's comes at the end
 *   mixed    as crossed; and the first one uses both its duplicate and the world */
#include <pthread.h>
#include <signal.h>
#include "sim.h"

static MPI_Comm a, b;
static sim_t sim;
static volatile int over;
static const char *how;

static int is(const char *name) { return strcmp(how, name) == 0; }

static void *other(void *unused) {
  int all = 0;
  if (is("sits")) {
    while (sim.rank == 0 && !over) usleep(1000);
    MPI_Barrier(b);
    return unused;
  }
  while (!all) {
    int mine = over;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, b);
    usleep(500 + 300 * sim.rank);
  }
  return unused;
}

static void step(void) {
  MPI_Comm comm = is("mixed") && sim.step % 3 == 0 ? MPI_COMM_WORLD : a;
  if (is("made")) MPI_Comm_dup(a, &comm);
  sim_step(&sim, comm);
  if (is("made")) MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
  int steps = atoi(argv[2]), every = atoi(argv[3]), killed = argc > 4 ? atoi(argv[4]) : 0, granted;
  pthread_t thread;
  how = argv[1];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  sim_init(&sim);
  MPI_Comm_split(MPI_COMM_WORLD, 0, is("backward") ? -sim.rank : sim.rank, &a);
  MPI_Comm_dup(MPI_COMM_WORLD, &b);
  int two = is("crossed") || is("sits") || is("mixed");
  if (two && pthread_create(&thread, NULL, other, NULL)) sim_fail("cannot make", "a thread");
  sim_restart(&sim, steps, every, a);
  while (sim.step < steps) {
    step();
    if (sim.step % every == 0) sim_checkpoint(&sim);
    if (sim.step == killed) {
      for (int i = 0; i < 60; i++) {
        MPI_Barrier(a);
        usleep(5000);
      }
      if (sim.rank == 0) raise(SIGKILL);
    }
  }
  over = 1;
  if (two) pthread_join(thread, NULL);
  sim_finish(&sim, a);
  MPI_Comm_free(&a);
  MPI_Comm_free(&b);
  MPI_Finalize();
  return 0;
}
