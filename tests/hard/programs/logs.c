/* Checkpoints, and a log of each rank beside them that stays open for the whole run, with a line
 * for each step. argv[1] steps, argv[2] every. */
#include "sim.h"

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]);
  char path[256];
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  mkdir("ckpt", 0777);
  snprintf(path, sizeof path, "ckpt/run_%d.log", sim.rank);
  FILE *log = fopen(path, "a");
  if (!log) sim_fail("cannot open", path);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (fprintf(log, "rank %d has passed step %d\n", sim.rank, sim.step) < 0 || fflush(log) != 0)
      sim_fail("cannot write", path);
    if (sim.step % every == 0) sim_checkpoint(&sim);
    usleep(2000);
  }
  if (fclose(log) != 0) sim_fail("cannot close", path);
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
