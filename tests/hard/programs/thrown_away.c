/* Four checkpoints, each with a flag beside it that rank 0 deletes when the checkpoint is complete.
 * Of the last one a rank writes its file in part, throws it away, and writes another. Then rank 0
 * is killed. With an argument it only says which files it finds. */
#include <signal.h>

#include "sim.h"

static const char flag[] = "ckpt/RUNNING";
static sim_t sim;

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file) != 0) sim_fail("cannot write", path);
}

static void throw_away(void) {
  char path[256];
  sim_mkdir(&sim, sim.step);
  sim_path(path, sizeof path, &sim, sim.step);
  put(path, "half of it");
  if (unlink(path) != 0) sim_fail("cannot unlink", path);
  snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.other", sim.step, sim.rank);
  put(path, "another");
}

static void look(void) {
  char path[256];
  printf("rank %d: %s %d\n", sim.rank, flag, access(flag, F_OK) == 0);
  for (int step = 1; step <= 4; step++) {
    sim_path(path, sizeof path, &sim, step);
    printf("rank %d: %s %d\n", sim.rank, path, access(path, F_OK) == 0);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  if (argc > 1) {
    look();
    MPI_Finalize();
    return 0;
  }
  for (int step = 1; step <= 4; step++) {
    sim.step = step;
    if (step == 4 && sim.rank == sim.size - 1) throw_away();
    else sim_checkpoint(&sim);
    if (sim.rank == 0) put(flag, "it goes on");
    sim_calm(60, 2000);
    if (sim.rank == 0 && unlink(flag) != 0) sim_fail("cannot unlink", flag);
    sim_calm(60, 2000);
  }
  if (sim.rank == 0) raise(SIGKILL);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
