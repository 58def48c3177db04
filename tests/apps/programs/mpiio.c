/* MPI-IO: all ranks write one file a checkpoint, the head by rank 0, the cells collectively. */
#include "grid.h"

void grid_save(const grid_t *grid) {
  char path[GRID_PATH];
  MPI_File file;
  head_t head = grid_head(grid);
  grid_path(path, grid->step, ".mpi");
  if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file))
    grid_fail("MPI_File_open", path);
  MPI_File_set_size(file, 0);
  if (grid->rank == 0) MPI_File_write_at(file, 0, &head, sizeof head, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_Offset at = (MPI_Offset)(sizeof head + grid->first * sizeof *grid->cells);
  if (MPI_File_write_at_all(file, at, grid->cells, (int)grid->count, MPI_UINT64_T,
                            MPI_STATUS_IGNORE))
    grid_fail("MPI_File_write_at_all", path);
  MPI_File_close(&file);
}

int grid_load(grid_t *grid, int step, head_t *head) {
  char path[GRID_PATH];
  MPI_File file;
  MPI_Status status;
  int got = 0;
  grid_path(path, step, ".mpi");
  if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) return 0;
  MPI_File_read_at_all(file, 0, head, sizeof *head, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_Offset at = (MPI_Offset)(sizeof *head + grid->first * sizeof *grid->cells);
  MPI_File_read_at_all(file, at, grid->cells, (int)grid->count, MPI_UINT64_T, &status);
  MPI_Get_count(&status, MPI_UINT64_T, &got);
  MPI_File_close(&file);
  return (uint64_t)got == grid->count;
}
