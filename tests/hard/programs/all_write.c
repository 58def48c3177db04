/* Files that all ranks write beside a file a rank: argument `header`: rank 0 writes a header by
 * stdio, then all ranks open the file by MPI-IO. `ordered`: the same, written behind the header by
 * the shared file pointer, for which MPI-IO has a file of its own beside it. */
#include "sim.h"

static void with_header(const sim_t *sim, const char *name, int ordered) {
  MPI_File file;
  if (sim->rank == 0) {
    FILE *stream = fopen(name, "wb");
    if (!stream || fwrite(sim, 64, 1, stream) != 1 || fclose(stream) != 0)
      sim_fail("cannot write the header of", name);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file))
    sim_fail("MPI_File_open fails on", name);
  if (ordered) {
    MPI_File_seek_shared(file, 64, MPI_SEEK_SET);
    MPI_File_write_ordered(file, sim->cells, SIM_CELLS, MPI_UINT64_T, MPI_STATUS_IGNORE);
  } else
    MPI_File_write_at_all(file, 64 + (MPI_Offset)sim->rank * SIM_CELLS * 8, sim->cells, SIM_CELLS,
                          MPI_UINT64_T, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
}

int main(int argc, char **argv) {
  sim_t sim;
  int ordered = argc > 1 && strcmp(argv[1], "ordered") == 0;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 30; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 != 0) continue;
    char name[256];
    sim_checkpoint(&sim);
    snprintf(name, sizeof name, "ckpt/step_%d/shared.dat", sim.step);
    with_header(&sim, name, ordered);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
