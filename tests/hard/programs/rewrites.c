/* Each rank has one checkpoint, `s.R`, which it writes anew, and from the third step on `late.R`.
 * The ranks say which they find, go on from there, and end; with PAUSE they make that file
 * before the last step and wait until it is removed.
 * usage: rewrites STEPS [PAUSE] */
#include "sim.h"

static int found(const char *stem, int rank) {
  char path[64];
  int step = 0;
  snprintf(path, sizeof path, "%s.%d", stem, rank);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  if (fscanf(file, "step %d", &step) != 1) step = -1;
  fclose(file);
  return step;
}

static void put(const char *stem, int rank, int step) {
  char path[64];
  snprintf(path, sizeof path, "%s.%d", stem, rank);
  FILE *file = fopen(path, "w");
  if (!file || fprintf(file, "step %d, and so on\n", step) < 0 || fclose(file) != 0)
    sim_fail("cannot write", path);
}

/* Each round is a synchronising call. */
static void wait_here(const char *path, int rank) {
  struct stat st;
  int fd = rank == 0 ? open(path, O_CREAT | O_WRONLY, 0666) : -1;
  if (rank == 0 && (fd < 0 || close(fd) != 0)) sim_fail("cannot make", path);
  for (int mine = 1, any = 1; any;) {
    mine = rank == 0 && stat(path, &st) == 0;
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    usleep(2000);
  }
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int begin = found("s", rank);
  printf("rank %d: %d %d\n", rank, begin, found("late", rank));
  fflush(stdout);
  for (int step = begin + 1; step <= begin + steps; step++) {
    if (argc > 2 && step == begin + steps) wait_here(argv[2], rank);
    put("s", rank, step);
    if (step > 2) put("late", rank, step);
    sim_calm(40, 4000);
  }
  MPI_Finalize();
  return 0;
}
