/* Returns from main with its last checkpoint sealed, and calls MPI_Finalize afterwards as a static
 * object's destructor would. argv[1]: "handler" (what C++ registers for a static object),
 * "destructor" (of the program file), "never", or "closes" (a handler also writes a checkpoint
 * before); argv[2]: microseconds that the last ranks take longer. */
#include "sim.h"

static sim_t sim;
static const char *how = "";

static void finalize(void) {
  int done = 0, begun = 0;
  MPI_Initialized(&begun);
  if (!begun) return;
  MPI_Finalized(&done);
  if (!strcmp(how, "closes")) {
    sim.step++;
    sim_checkpoint(&sim);
  }
  if (!done) MPI_Finalize();
}

static void in_handler(void) {
  if (!strcmp(how, "handler") || !strcmp(how, "closes")) finalize();
}

__attribute__((destructor)) static void in_destructor(void) {
  if (!strcmp(how, "destructor")) finalize();
}

int main(int argc, char **argv) {
  how = argc > 1 ? argv[1] : "";
  atexit(in_handler);
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim_restart(&sim, 20, 5, MPI_COMM_WORLD);
  while (sim.step < 20) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) {
      sim_checkpoint(&sim);
      sim_calm(20, 10000);
    }
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim.rank > 0 && argc > 2) usleep(atoi(argv[2]));
  return 0;
}
