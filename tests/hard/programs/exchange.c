/* Exchanges the names of two files of a checkpoint (RENAME_EXCHANGE): right after the close, when
 * it is complete, and of one that is missing, or open, or no checkpoint's. */
#define _GNU_SOURCE
#include "sim.h"

static void exchange(const char *from, const char *to) {
  int done = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
  printf("%s %s: %s\n", from, to, done == 0 ? "ok" : strerror(errno));
}

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (!file || fprintf(file, "%s %s", path, text) < 0 || fclose(file) != 0)
    sim_fail("cannot write", path);
}

static void show(const sim_t *sim, const char *path) {
  if (sim->rank != 0) return;
  char text[200] = "";
  FILE *file = fopen(path, "r");
  if (file && fgets(text, sizeof text, file) == NULL) text[0] = 0;
  if (file) fclose(file);
  printf("%s has: %s\n", path, file ? text : "nothing");
}

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int i = 0; i < 6; i++) {
    char own[200], other[200], missing[200];
    sim_step(&sim, MPI_COMM_WORLD);
    sim_mkdir(&sim, sim.step);
    snprintf(own, sizeof own, "ckpt/step_%d/rank_%d.dat", sim.step, sim.rank);
    snprintf(other, sizeof other, "ckpt/step_%d/rank_%d.dat", sim.step, 100 + sim.rank);
    snprintf(missing, sizeof missing, "ckpt/step_%d/rank_%d.dat", sim.step, 200 + sim.rank);
    put(own, "own");
    put(other, "other");
    if (i % 2) sim_calm(100, 2000);
    MPI_Barrier(MPI_COMM_WORLD);
    if (sim.rank == 0 && i < 4) {
      exchange(own, other);
      exchange(own, missing);
      exchange(missing, own);
    } else if (sim.rank == 0) {
      put("plain", "plain");
      exchange("plain", own);
      show(&sim, "plain");
    }
    show(&sim, own);
    show(&sim, other);
    MPI_Barrier(MPI_COMM_WORLD);
    sim_calm(100, 1000);
    show(&sim, own);
    show(&sim, other);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
