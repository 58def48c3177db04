/* The last rank keeps its checkpoint in `state.cpt` and the one before in `state_prev.cpt`; every
 * third step it deletes the older one. From some step on rank 0 says, after the barrier that
 * follows, what it finds. */
#include "sim.h"

static sim_t sim;

static void put(void) {
  if (access("state.cpt", F_OK) == 0 && rename("state.cpt", "state_prev.cpt") != 0)
    sim_fail("cannot rename", "state.cpt");
  FILE *file = fopen("state.cpt", "w");
  if (!file || fprintf(file, "state at %d\n", sim.step) < 0 || fclose(file) != 0)
    sim_fail("cannot write", "state.cpt");
  if (sim.step % 3 == 0 && unlink("state_prev.cpt") != 0) sim_fail("cannot delete", "it");
}

static void show(const char *name) {
  char text[64] = "";
  struct stat found;
  int there = stat(name, &found) == 0;
  FILE *file = fopen(name, "r");
  if (!file || !fgets(text, sizeof text, file)) strcpy(text, "nothing\n");
  if (file) fclose(file);
  printf("step %d: %s: %ld bytes: %s", sim.step, name, there ? (long)found.st_size : -1L, text);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  int steps = atoi(argv[1]), reads_from = atoi(argv[2]);
  for (int step = 1; step <= steps; step++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.rank == sim.size - 1) put();
    MPI_Barrier(MPI_COMM_WORLD);
    if (sim.rank == 0 && step >= reads_from) {
      show("state.cpt");
      show("state_prev.cpt");
      fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    sim_calm(20, 4000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
