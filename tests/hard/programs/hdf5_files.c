/* Checkpoints of one HDF5 file that all ranks write: matrices in groups, a block a rank.
 *
 * usage: hdf5_files WAY STEPS [PAUSE_STEP PAUSE]  each step writes ckpt/step_<step>/all.h5
 * WAY is made of these words, and may have none of them. together: data by collective calls.
 * flush: after each matrix. chunks, zip: whole ones in each rank; cut: across ranks. metadata: by
 * collective calls, too. back: what has been written is opened and read again. anew: the file is
 * closed and opened again for each matrix. fill: with fill values. again1, again2: to one or
 * two names, ckpt/all_a.h5 and all_b.h5, again and again. half: each half of the ranks writes a
 * file, the second odd.h5. What one rank does before: kept copies the file that lies there to
 * another name, truncated empties it by its name, serial makes the new one by itself.
 * It goes on from the newest checkpoint there is, of which each rank checks its block; before it
 * closes that it makes what HOLD names, and waits until that has gone. At PAUSE_STEP it does so
 * with PAUSE. */
#include <hdf5.h>

#include "sim.h"

enum { ROWS = 128, COLUMNS = 2048, MATRICES = 3 };

static const char *way;
static sim_t sim;
/* Those that write one file. */
static MPI_Comm ranks = MPI_COMM_WORLD;
static int rank, size, odd;
static hsize_t whole[] = {ROWS, COLUMNS}, own[2], first[2];
static double *cells;

static int has(const char *word) { return strstr(way, word) != NULL; }

static hid_t ok(hid_t code, const char *what) {
  if (code < 0) {
    H5Eprint2(H5E_DEFAULT, stderr);
    sim_fail(what, way);
  }
  return code;
}
#define OK(call) ok((call), #call)

static double cell(int step, int matrix, hsize_t i) {
  return step * 1e6 + matrix * 1e4 + (rank + odd) * 100 + (double)(i % 1000) / 7;
}

static const char *name_of(int step) {
  static char name[64];
  if (has("again"))
    snprintf(name, sizeof name, "ckpt/all_%c.h5", has("again1") ? 'a' : 'a' + step % 2);
  else
    snprintf(name, sizeof name, "ckpt/step_%d/%s.h5", step, odd ? "odd" : "all");
  return name;
}

static hid_t access_list(void) {
  hid_t list = OK(H5Pcreate(H5P_FILE_ACCESS));
  OK(H5Pset_fapl_mpio(list, ranks, MPI_INFO_NULL));
  if (has("metadata")) {
    OK(H5Pset_all_coll_metadata_ops(list, 1));
    OK(H5Pset_coll_metadata_write(list, 1));
  }
  return list;
}

static hid_t transfer_list(void) {
  hid_t list = OK(H5Pcreate(H5P_DATASET_XFER));
  OK(H5Pset_dxpl_mpio(list, has("together") ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
  return list;
}

/* Writes the rank's block, or reads and checks it; whether all was well. */
static int move_block(hid_t set, int step, int matrix, int write) {
  hid_t there = OK(H5Dget_space(set)), here = OK(H5Screate_simple(2, own, NULL));
  hid_t list = transfer_list();
  hsize_t count = own[0] * own[1];
  int good = 1;
  OK(H5Sselect_hyperslab(there, H5S_SELECT_SET, first, NULL, own, NULL));
  if (write) {
    for (hsize_t i = 0; i < count; i++) cells[i] = cell(step, matrix, i);
    OK(H5Dwrite(set, H5T_NATIVE_DOUBLE, here, there, list, cells));
  } else {
    good = H5Dread(set, H5T_NATIVE_DOUBLE, here, there, list, cells) >= 0;
    for (hsize_t i = 0; good && i < count; i++) good = cells[i] == cell(step, matrix, i);
  }
  H5Pclose(list), H5Sclose(here), H5Sclose(there);
  return good;
}

static hid_t created(hid_t group) {
  hid_t list = OK(H5Pcreate(H5P_DATASET_CREATE)), space = OK(H5Screate_simple(2, whole, NULL));
  hsize_t chunk[] = {own[0] / 2, own[1] / 2};
  if (has("cut")) chunk[0] = own[0] * 2 / 3, chunk[1] = own[1] * 2 / 3;
  OK(H5Pset_obj_track_times(list, 0));
  if (has("chunks") || has("zip")) OK(H5Pset_chunk(list, 2, chunk));
  if (has("zip")) OK(H5Pset_deflate(list, 1));
  if (has("fill")) {
    double value = -1;
    OK(H5Pset_fill_value(list, H5T_NATIVE_DOUBLE, &value));
    OK(H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY));
    OK(H5Pset_fill_time(list, H5D_FILL_TIME_ALLOC));
  }
  hid_t set =
    OK(H5Dcreate2(group, "cells", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  H5Sclose(space), H5Pclose(list);
  return set;
}

static void put_attribute(hid_t set, int step) {
  hid_t one = OK(H5Screate(H5S_SCALAR));
  hid_t attribute =
    OK(H5Acreate2(set, "step", H5T_NATIVE_INT, one, H5P_DEFAULT, H5P_DEFAULT));
  OK(H5Awrite(attribute, H5T_NATIVE_INT, &step));
  H5Aclose(attribute), H5Sclose(one);
}

static int is_right(hid_t file, int step, int matrix) {
  char name[32];
  int told = -1;
  snprintf(name, sizeof name, "matrix_%d/cells", matrix);
  hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
  if (set < 0) return 0;
  hid_t attribute = H5Aopen(set, "step", H5P_DEFAULT);
  int good = attribute >= 0 && H5Aread(attribute, H5T_NATIVE_INT, &told) >= 0 && told == step;
  good &= move_block(set, step, matrix, 0);
  H5Aclose(attribute), H5Dclose(set);
  return good;
}

/* The step of which the file is: of names that are used again it may be any. */
static int told_step(hid_t file) {
  int told = -1;
  hid_t set = H5Dopen2(file, "matrix_0/cells", H5P_DEFAULT);
  if (set < 0) return told;
  hid_t attribute = OK(H5Aopen(set, "step", H5P_DEFAULT));
  OK(H5Aread(attribute, H5T_NATIVE_INT, &told));
  H5Aclose(attribute), H5Dclose(set);
  return told;
}

static void put_matrix(hid_t file, int step, int matrix) {
  char name[32];
  snprintf(name, sizeof name, "matrix_%d", matrix);
  hid_t group = OK(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  hid_t set = created(group);
  move_block(set, step, matrix, 1);
  put_attribute(set, step);
  H5Dclose(set), H5Gclose(group);
  if (has("flush") || has("back")) OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
  if (has("back") && !is_right(file, step, matrix)) sim_fail("not read again", name);
}

/* Copies what lies under the name to another one. */
static void keep(const char *name) {
  char kept[80], buffer[65536];
  size_t count;
  snprintf(kept, sizeof kept, "%s.kept", name);
  FILE *from = fopen(name, "rb");
  if (!from) return;
  FILE *to = fopen(kept, "wb");
  if (!to) sim_fail("cannot make", kept);
  while ((count = fread(buffer, 1, sizeof buffer, from)) > 0) fwrite(buffer, 1, count, to);
  if (fclose(to) || fclose(from)) sim_fail("cannot write", kept);
}

static hid_t begun(const char *name, hid_t list) {
  if (sim.rank == 0 && has("kept")) keep(name);
  if (sim.rank == 0 && has("truncated") && truncate(name, 0) && errno != ENOENT)
    sim_fail("cannot cut", name);
  if (sim.rank == 0 && has("serial"))
    OK(H5Fclose(OK(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT))));
  MPI_Barrier(MPI_COMM_WORLD);
  return has("serial") ? OK(H5Fopen(name, H5F_ACC_RDWR, list))
                       : OK(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list));
}

static void checkpoint(int step) {
  const char *name = name_of(step);
  hid_t list = access_list();
  if (sim.rank == 0) sim_mkdir(&sim, step);
  MPI_Barrier(MPI_COMM_WORLD);
  hid_t file = begun(name, list);
  for (int matrix = 0; matrix < MATRICES; matrix++) {
    if (has("anew") && matrix > 0) {
      OK(H5Fclose(file));
      file = OK(H5Fopen(name, H5F_ACC_RDWR, list));
    }
    put_matrix(file, step, matrix);
  }
  OK(H5Fclose(file));
  H5Pclose(list);
}

static void wait_until_gone(const char *pause) {
  if (sim.rank == 0) close(open(pause, O_WRONLY | O_CREAT, 0666));
  for (int there = 1; there;) {
    if (sim.rank == 0) there = access(pause, F_OK) == 0;
    MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    sim_calm(1, 20000);
  }
}

/* Whether all ranks can read that checkpoint; what can be read is right. */
static int load(int step) {
  const char *name = name_of(step);
  int good, all = 0;
  hid_t list = access_list(), file;
  H5E_BEGIN_TRY { file = H5Fopen(name, H5F_ACC_RDONLY, list); }
  H5E_END_TRY
  H5Pclose(list);
  good = file >= 0 && (!has("again") || told_step(file) == step);
  for (int matrix = 0; good && matrix < MATRICES; matrix++)
    if (!is_right(file, step, matrix)) sim_fail("wrong", name);
  if (good && getenv("HOLD")) wait_until_gone(getenv("HOLD"));
  if (file >= 0) OK(H5Fclose(file));
  MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) return 2;
  way = argv[1];
  sim_init(&sim);
  int steps = atoi(argv[2]), pause = argc > 4 ? atoi(argv[3]) : 0, step = steps;
  if (has("half")) {
    odd = sim.rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, odd, sim.rank, &ranks);
  }
  MPI_Comm_rank(ranks, &rank);
  MPI_Comm_size(ranks, &size);
  own[0] = ROWS / ((hsize_t)size / 2), own[1] = COLUMNS / 2;
  first[0] = (hsize_t)rank / 2 * own[0], first[1] = (hsize_t)rank % 2 * own[1];
  cells = malloc(own[0] * own[1] * sizeof *cells);
  while (step > 0 && !load(step)) step--;
  sim_tell_restart(&sim, step);
  while (step++ < steps) {
    checkpoint(step);
    sim_calm(10, 20000);
    if (step == pause) wait_until_gone(argv[4]);
  }
  free(cells);
  MPI_Finalize();
  return 0;
}
