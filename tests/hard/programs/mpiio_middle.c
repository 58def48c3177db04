/* MPI-IO in the middle of a checkpoint series: the library's own collectives pass our hooks. */
#include "sim.h"

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 20; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) {
      char name[256];
      MPI_File file;
      sim_checkpoint(&sim);
      snprintf(name, sizeof name, "ckpt/step_%d/shared.mpi", sim.step);
      if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                        &file) != MPI_SUCCESS) {
        fprintf(stderr, "MPI_File_open failed\n");
        MPI_Abort(MPI_COMM_WORLD, 4);
      }
      MPI_File_write_at_all(file, (MPI_Offset)sim.rank * SIM_CELLS * 8, sim.cells, SIM_CELLS,
                            MPI_UINT64_T, MPI_STATUS_IGNORE);
      MPI_File_close(&file);
    }
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
