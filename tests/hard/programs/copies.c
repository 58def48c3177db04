/* Rank 0 has the checkpoint files of all ranks copied and packed by programs that compare what stat
 * tells of a name with what fstat tells of its descriptor. */
#include "sim.h"

static void run(const char *command) {
  printf("%s: %d\n", command, system(command));
  fflush(stdout);
}

int main(int argc, char **argv) {
  sim_t sim;
  char command[256];
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 2; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    sim_calm(20, 10000);
    for (int rank = 0; rank < sim.size && sim.rank == 0; rank++) {
      snprintf(command, sizeof command, "cp ckpt/step_%d/rank_%d.dat copy_%d_%d", sim.step, rank,
               sim.step, rank);
      run(command);
      snprintf(command, sizeof command, "tar cf packed_%d_%d.tar ckpt/step_%d/rank_%d.dat",
               sim.step, rank, sim.step, rank);
      run(command);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
