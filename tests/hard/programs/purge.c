/* Writes checkpoints (argument 1: so many), all of them complete; then the newest is all that the
 * program keeps, and at once it is killed. Argument 2: `one` rank removes the files of all, or
 * `each` its own. */
#include <signal.h>

#include "sim.h"

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  int written = atoi(argv[1]), one = !strcmp(argv[2], "one"), newest = 0;
  for (int s = 0; s < written; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    sim_calm(20, 10000);
  }
  for (int step = 1; step < 20; step++) {
    char path[256];
    sim_path(path, sizeof path, &sim, step);
    if (access(path, F_OK) == 0) newest = step;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step < newest; step++) {
    char path[256];
    sim_t who = sim;
    sim_path(path, sizeof path, &sim, step);
    int there = access(path, F_OK) == 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!there) continue;
    for (who.rank = 0; who.rank < sim.size; who.rank++) {
      sim_path(path, sizeof path, &who, step);
      if (who.rank == sim.rank || one)
        if ((sim.rank == 0 || !one) && unlink(path)) sim_fail("cannot remove", path);
    }
    if (!one) MPI_Barrier(MPI_COMM_WORLD);
    snprintf(path, sizeof path, "ckpt/step_%d", step);
    if (sim.rank == 0 && rmdir(path)) sim_fail("cannot remove", path);
  }
  if (sim.rank == 0) raise(SIGKILL);
  MPI_Barrier(MPI_COMM_WORLD);
  return 1;
}
