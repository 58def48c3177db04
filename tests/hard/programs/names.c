/* Writes files of the given names at three steps; @ in a name stands for the step, & for the rank,
 * and a name without & is rank 0's. argv[1] "looks": asks for each name and opens it for reading
 * before it is written, as careful programs do; "renames": writes <name>.part and renames it;
 * "moves": writes into the directory `part`, which then gets the name's first part. */
#include "sim.h"

static void fill(char *path, const char *name, int step, int rank) {
  for (; *name; name++) {
    int number = *name == '@' ? step : rank;
    if (*name == '@' || *name == '&')
      path += sprintf(path, "%d", number);
    else
      *path++ = *name;
  }
  *path = 0;
}

static void write_file(const char *path, int step) {
  char dir[4096];
  for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
    mkdir(dir, 0777);
  }
  FILE *file = fopen(path, "w");
  if (!file || fprintf(file, "step %d\n", step) < 0 || fclose(file)) MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int step = 5; step <= 15; step += 5) {
    for (int i = 2; i < argc; i++) {
      char path[4096];
      struct stat found;
      fill(path, argv[i], step, rank);
      if (!strchr(argv[i], '&') && rank) continue;
      if (!strcmp(argv[1], "looks") && stat(path, &found)) {
        FILE *old = fopen(path, "r");
        if (old) fclose(old);
      }
      char other[4200];
      snprintf(other, sizeof other, "%s.part", path);
      if (!strcmp(argv[1], "moves")) snprintf(other, sizeof other, "part%s", strchr(path, '/'));
      int directly = strcmp(argv[1], "moves") && strcmp(argv[1], "renames");
      write_file(directly ? path : other, step);
      if (!strcmp(argv[1], "renames") && rename(other, path)) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (!strcmp(argv[1], "moves")) {
      char path[4096];
      fill(path, argv[2], step, rank);
      *strchr(path, '/') = 0;
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0 && rename("part", path)) MPI_Abort(MPI_COMM_WORLD, 2);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    sim_calm(20, 1000);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("written\n");
  MPI_Finalize();
  return 0;
}
