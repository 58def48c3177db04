/* A world of n spawns n more, merges, and splits into pairs of communicators that have the size of
 * the world and are not the world. Counting them as synchronising points hangs. */
#include "sim.h"

int main(int argc, char **argv) {
  MPI_Comm parent, all, half;
  int world, merged_rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  if (parent == MPI_COMM_NULL) {
    MPI_Comm children;
    sim_t sim;
    sim_init(&sim);
    for (int s = 0; s < 3; s++) { sim_step(&sim, MPI_COMM_WORLD); sim_checkpoint(&sim); }
    MPI_Barrier(MPI_COMM_WORLD); /* the third is complete, should the spawn fail */
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, world, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(children, 0, &all);
    MPI_Comm_rank(all, &merged_rank);
    MPI_Comm_split(all, merged_rank % 2, merged_rank, &half);
    for (int i = 0; i < 500; i++) {
      int x = 1, y;
      MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, half);
    }
    for (int s = 0; s < 3; s++) { sim_step(&sim, MPI_COMM_WORLD); sim_checkpoint(&sim); }
    for (int i = 0; i < 10 + 7 * (merged_rank % 2); i++) MPI_Barrier(half);
    sim_finish(&sim, MPI_COMM_WORLD);
  } else {
    MPI_Intercomm_merge(parent, 1, &all);
    MPI_Comm_rank(all, &merged_rank);
    MPI_Comm_split(all, merged_rank % 2, merged_rank, &half);
    for (int i = 0; i < 500; i++) {
      int x = 1, y;
      MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, half);
    }
    for (int i = 0; i < 10 + 7 * (merged_rank % 2); i++) MPI_Barrier(half);
  }
  MPI_Finalize();
  return 0;
}
