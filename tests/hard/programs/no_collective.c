/* No blocking collective of the world: a ring of point-to-point messages, or (argv[1] is
 * "nonblocking") collectives that are completed later. Checkpoints still have to reach the parallel
 * file system. Waits for the file argv[2] (made by the test) before it ends. */
#include "sim.h"

static uint64_t ring(const sim_t *sim) {
  uint64_t out = sim->cells[0], in = 0;
  MPI_Sendrecv(&out, 1, MPI_UINT64_T, (sim->rank + 1) % sim->size, 0, &in, 1, MPI_UINT64_T,
               (sim->rank + sim->size - 1) % sim->size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return in;
}

static uint64_t nonblocking(const sim_t *sim) {
  uint64_t out = sim->cells[0], in = 0;
  MPI_Request sum, barrier;
  MPI_Iallreduce(&out, &in, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD, &sum);
  MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
  MPI_Wait(&barrier, MPI_STATUS_IGNORE);
  MPI_Wait(&sum, MPI_STATUS_IGNORE);
  return in;
}

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 20; s++) {
    uint64_t in = strcmp(argv[1], "ring") == 0 ? ring(&sim) : nonblocking(&sim);
    sim_local(&sim, in);
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  if (argc > 2) {
    struct stat st;
    if (sim.rank == 0) { printf("waiting\n"); fflush(stdout); }
    while (stat(argv[2], &st) != 0) usleep(20000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
