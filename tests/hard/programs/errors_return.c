/* MPI_ERRORS_RETURN and a peer that dies: the survivors get an error and end by themselves; a
 * collective of ours that aborts or waits for the dead peer changes that. */
#include <signal.h>
#include "sim.h"

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  sim_init(&sim);
  for (int s = 0; s < 10; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim.rank == sim.size - 1) kill(getpid(), SIGKILL);
  int x = 1, y;
  if (MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
    fprintf(stderr, "rank %d saw the error\n", sim.rank);
  MPI_Finalize();
  return 0;
}
