/* Parallel HDF5: all ranks write one file a checkpoint. */
#include "grid.h"

#include <hdf5.h>

static hid_t by_mpi(void) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  return access;
}

/* One transfer of this rank's cells by all ranks together; `write` or read. */
static herr_t transfer(const grid_t *grid, hid_t set, int write) {
  hsize_t first = grid->first, count = grid->count;
  hid_t memory = H5Screate_simple(1, &count, NULL), file = H5Dget_space(set);
  hid_t together = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
  H5Sselect_hyperslab(file, H5S_SELECT_SET, &first, NULL, &count, NULL);
  herr_t done = write ? H5Dwrite(set, H5T_NATIVE_UINT64, memory, file, together, grid->cells)
                      : H5Dread(set, H5T_NATIVE_UINT64, memory, file, together, grid->cells);
  H5Pclose(together), H5Sclose(file), H5Sclose(memory);
  return done;
}

void grid_save(const grid_t *grid) {
  char path[GRID_PATH];
  head_t head = grid_head(grid);
  hsize_t total = grid->total, three = 3;
  grid_path(path, grid->step, ".h5");
  hid_t access = by_mpi(), file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  if (file < 0) grid_fail("H5Fcreate", path);
  hid_t space = H5Screate_simple(1, &total, NULL), made = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(made, 0);
  hid_t set = H5Dcreate2(file, "cells", H5T_NATIVE_UINT64, space, H5P_DEFAULT, made, H5P_DEFAULT);
  if (transfer(grid, set, 1) < 0) grid_fail("H5Dwrite", path);
  hid_t row = H5Screate_simple(1, &three, NULL);
  hid_t about = H5Acreate2(set, "head", H5T_NATIVE_UINT64, row, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(about, H5T_NATIVE_UINT64, &head);
  H5Aclose(about), H5Sclose(row), H5Dclose(set), H5Pclose(made), H5Sclose(space);
  if (H5Fclose(file) < 0) grid_fail("H5Fclose", path);
  H5Pclose(access);
}

int grid_load(grid_t *grid, int step, head_t *head) {
  char path[GRID_PATH];
  int good = 0;
  grid_path(path, step, ".h5");
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  hid_t access = by_mpi(), file = H5Fopen(path, H5F_ACC_RDONLY, access);
  hid_t set = file < 0 ? -1 : H5Dopen2(file, "cells", H5P_DEFAULT);
  hid_t about = set < 0 ? -1 : H5Aopen(set, "head", H5P_DEFAULT);
  if (about >= 0 && H5Aread(about, H5T_NATIVE_UINT64, head) >= 0 && head->total == grid->total)
    good = transfer(grid, set, 0) >= 0;
  if (about >= 0) H5Aclose(about);
  if (set >= 0) H5Dclose(set);
  if (file >= 0) H5Fclose(file);
  H5Pclose(access);
  return good;
}
