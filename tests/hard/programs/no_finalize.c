/* Exit without MPI_Finalize, the last checkpoint just closed and one file still open. */
#include "sim.h"

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 20; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  fflush(NULL);
  if (argc > 1) _exit(0);
  exit(0);
}
