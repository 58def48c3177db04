/* MPI_ERRORS_RETURN and a peer that dies: the survivors get an error and end by themselves; a
 * collective of ours that aborts or waits for the dead peer changes that. One that goes on from a
 * checkpoint has no peer that dies. */
#include <signal.h>
#include "sim.h"

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  sim_init(&sim);
  sim_restart(&sim, 10, 5, MPI_COMM_WORLD);
  int dies = sim.step == 0 && sim.rank == sim.size - 1;
  while (sim.step < 10) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (dies) kill(getpid(), SIGKILL);
  int x = 1, y;
  if (MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
    fprintf(stderr, "rank %d saw the error\n", sim.rank);
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
