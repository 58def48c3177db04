/* No world collective at all: a ring of point-to-point messages. Checkpoints still have to reach
 * the parallel file system. Waits for the file argv[1] (made by the test) before it ends. */
#include "sim.h"

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 20; s++) {
    uint64_t out = sim.cells[0], in = 0;
    MPI_Sendrecv(&out, 1, MPI_UINT64_T, (sim.rank + 1) % sim.size, 0, &in, 1, MPI_UINT64_T,
                 (sim.rank + sim.size - 1) % sim.size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sim_local(&sim, in);
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  if (argc > 1) {
    struct stat st;
    if (sim.rank == 0) { printf("waiting\n"); fflush(stdout); }
    while (stat(argv[1], &st) != 0) usleep(20000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
