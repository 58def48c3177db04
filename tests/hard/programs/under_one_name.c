/* All ranks write one file by MPI-IO under one name, again and again.
 *
 * usage: under_one_name emptied|changed|numbered STEPS [PAUSE]  changed: what lies there is written
 * over. numbered: one of each step, emptied. Rank 0 tells how long each rank has found the file
 * when it was emptied; in the end it makes PAUSE, and all wait until that is gone. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 1 << 20, CALLS = 20 };

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  if (argc < 3) return 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char *data = malloc(BYTES);
  MPI_Offset *found = malloc((size_t)size * sizeof *found), own = 0;
  if (rank == 0) mkdir("ckpt", 0755);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step <= atoi(argv[2]); step++) {
    MPI_File file;
    char name[64] = "ckpt/state.dat";
    if (strcmp(argv[1], "numbered") == 0) snprintf(name, sizeof name, "ckpt/step_%d.dat", step);
    memset(data, 'a' + (step + rank) % 26, BYTES);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (strcmp(argv[1], "changed") != 0) {
      MPI_File_set_size(file, 0);
      MPI_File_get_size(file, &own);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Gather(&own, 1, MPI_OFFSET, found, 1, MPI_OFFSET, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
      printf("step %d rank %d found %lld bytes\n", step, i, (long long)found[i]);
    MPI_File_write_at(file, own + (MPI_Offset)rank * BYTES, data, BYTES, MPI_BYTE,
                      MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    for (int call = 0; call < CALLS; call++) {
      MPI_Barrier(MPI_COMM_WORLD);
      usleep(10000);
    }
  }
  if (argc > 3 && rank == 0) fclose(fopen(argv[3], "w"));
  for (int there = argc > 3; there; usleep(10000)) {
    if (rank == 0) there = access(argv[3], F_OK) == 0;
    MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
