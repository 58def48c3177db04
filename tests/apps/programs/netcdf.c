/* Parallel netCDF-4: all ranks write one file a checkpoint. */
#include "grid.h"

#include <netcdf.h>
#include <netcdf_par.h>

static void must(int status, const char *path) {
  if (status == NC_NOERR) return;
  fprintf(stderr, "%s: %s\n", path, nc_strerror(status));
  MPI_Abort(MPI_COMM_WORLD, 3);
}

void grid_save(const grid_t *grid) {
  char path[GRID_PATH];
  int file, cells, about, dims[2];
  head_t head = grid_head(grid);
  size_t first = grid->first, count = grid->count, none = 0, three = 3;
  grid_path(path, grid->step, ".nc");
  must(nc_create_par(path, NC_NETCDF4 | NC_CLOBBER, MPI_COMM_WORLD, MPI_INFO_NULL, &file), path);
  must(nc_def_dim(file, "cell", grid->total, &dims[0]), path);
  must(nc_def_dim(file, "word", 3, &dims[1]), path);
  must(nc_def_var(file, "cells", NC_UINT64, 1, &dims[0], &cells), path);
  must(nc_def_var(file, "head", NC_UINT64, 1, &dims[1], &about), path);
  must(nc_enddef(file), path);
  must(nc_var_par_access(file, cells, NC_COLLECTIVE), path);
  must(nc_var_par_access(file, about, NC_COLLECTIVE), path);
  must(nc_put_vara(file, cells, &first, &count, grid->cells), path);
  must(nc_put_vara(file, about, &none, grid->rank == 0 ? &three : &none, &head), path);
  must(nc_close(file), path);
}

int grid_load(grid_t *grid, int step, head_t *head) {
  char path[GRID_PATH];
  int file, cells, about;
  size_t first = grid->first, count = grid->count, none = 0, three = 3;
  grid_path(path, step, ".nc");
  if (nc_open_par(path, NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &file)) return 0;
  int good = !nc_inq_varid(file, "cells", &cells) && !nc_inq_varid(file, "head", &about) &&
             !nc_var_par_access(file, cells, NC_COLLECTIVE) &&
             !nc_var_par_access(file, about, NC_COLLECTIVE) &&
             !nc_get_vara(file, cells, &first, &count, grid->cells) &&
             !nc_get_vara(file, about, &none, &three, head);
  nc_close(file);
  return good;
}
