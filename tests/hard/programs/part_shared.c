/* A checkpoint of a file a rank, and of one that all ranks write together by MPI-IO. argv[1] steps;
 * argv[2] the step after which rank 1 dies. Says from where it goes on, and whether the file of all
 * ranks is there, as long as it was written. */
#include "sim.h"
#include <signal.h>

static void shared_path(char *path, size_t bytes, int step) {
  snprintf(path, bytes, "ckpt/step_%d/shared.dat", step);
}

static void together(const sim_t *sim) {
  char path[256];
  MPI_File file;
  shared_path(path, sizeof path, sim->step);
  if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file))
    sim_fail("MPI_File_open fails on", path);
  MPI_File_write_at_all(file, (MPI_Offset)sim->rank * SIM_CELLS * 8, sim->cells, SIM_CELLS,
                        MPI_UINT64_T, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), last = argc > 2 ? atoi(argv[2]) : 0;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim_restart(&sim, steps, 5, MPI_COMM_WORLD);
  if (sim.rank == 0 && sim.step > 0) {
    char path[256];
    struct stat st;
    shared_path(path, sizeof path, sim.step);
    int whole = stat(path, &st) == 0 && st.st_size == (off_t)sim.size * SIM_CELLS * 8;
    printf("shared %s\n", whole ? "whole" : "spoiled");
  }
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 != 0) continue;
    sim_checkpoint(&sim);
    MPI_Barrier(MPI_COMM_WORLD);
    together(&sim);
    sim_calm(200, 1000);
    if (sim.step == last && sim.rank == 1) raise(SIGKILL);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
