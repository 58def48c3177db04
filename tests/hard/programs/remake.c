/* Rank 0 removes the newest checkpoint, directory and all, and makes the directory again. */
#include "sim.h"

static void barriers(void) {
  sim_calm(200, 1000);
}

int main(int argc, char **argv) {
  sim_t sim;
  struct stat st;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int i = 0; i < 2; i++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    barriers();
  }
  if (sim.rank == 0) {
    int gone = 0;
    for (int rank = 0; rank < sim.size; rank++) {
      char path[64];
      snprintf(path, sizeof path, "ckpt/step_2/rank_%d.dat", rank);
      gone += unlink(path) == 0;
    }
    int removed = rmdir("ckpt/step_2"), seen = stat("ckpt/step_2", &st) == 0;
    int made = mkdir("ckpt/step_2", 0777);
    printf("gone %d removed %d seen %d made %d back %d\n", gone, removed, seen, made,
           stat("ckpt/step_2/rank_0.dat", &st) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim.rank == 0) {
    int fd = open("ckpt/step_2/note", O_WRONLY | O_CREAT | O_EXCL, 0666);
    printf("note %d\n", fd >= 0);
    fflush(stdout);
    close(fd);
  }
  for (int i = 0; i < 2; i++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    barriers();
  }
  MPI_Finalize();
  return 0;
}
