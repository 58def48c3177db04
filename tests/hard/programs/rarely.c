/* Each rank has two files that it changes in place, never cut short: `state_<rank>` in each of
 * argv[1] checkpoints, `side_<rank>` in the first one only. In a last one it changes `side_<rank>`
 * and dies before it comes to `state_<rank>`. With 0 checkpoints it tells what it finds. */
#include "sim.h"
#include <signal.h>

static void change(const char *name, int rank, int number) {
  char path[64], text[64];
  snprintf(path, sizeof path, "%s_%d", name, rank);
  int fd = open(path, O_RDWR | O_CREAT, 0666);
  int bytes = snprintf(text, sizeof text, "%s of checkpoint %4d\n", name, number);
  if (fd < 0 || write(fd, text, bytes) != bytes || close(fd) != 0) sim_fail("cannot change", path);
}

static void tell(const char *name, int rank) {
  char path[64], text[64] = "none\n";
  snprintf(path, sizeof path, "%s_%d", name, rank);
  FILE *file = fopen(path, "r");
  if (file && (!fgets(text, sizeof text, file) || fclose(file) != 0)) sim_fail("cannot read", path);
  printf("rank %d: %s", rank, text);
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (steps == 0) {
    tell("state", rank);
    tell("side", rank);
  }
  for (int step = 0; step < steps; step++) {
    if (step == 0) change("side", rank, step);
    change("state", rank, step);
    sim_calm(20, 10000);
  }
  if (steps > 0) {
    change("side", rank, steps);
    sim_calm(1, 100000);
    raise(SIGKILL);
  }
  MPI_Finalize();
  return 0;
}
