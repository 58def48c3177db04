/* MPI_Comm_create_group over the world's group restricted to one rank is legal for that rank alone;
 * taking it for a world collective hangs. */
#include "sim.h"

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 20; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.rank == 0) {
      MPI_Group world, one;
      MPI_Comm alone;
      int zero = 0;
      MPI_Comm_group(MPI_COMM_WORLD, &world);
      MPI_Group_incl(world, 1, &zero, &one);
      MPI_Comm_create_group(MPI_COMM_WORLD, one, 7, &alone);
      MPI_Comm_free(&alone);
      MPI_Group_free(&one);
      MPI_Group_free(&world);
    }
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
