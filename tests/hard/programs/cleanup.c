/* Rank 0 removes what other ranks wrote. Argument `rewrite`: before every checkpoint it removes the
 * files of the last one, and all write them anew under the same names. `end`: every checkpoint has
 * names of its own; when the last one is written, all but the first are removed. */
#include "sim.h"

static void put(const sim_t *sim, const char *name) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) sim_fail("cannot make", name);
  if (write(fd, sim, sizeof *sim) != (ssize_t)sizeof *sim || close(fd) != 0)
    sim_fail("cannot write", name);
}

static void discard(const sim_t *sim, int step) {
  char name[256];
  for (int rank = 0; rank < sim->size; rank++) {
    snprintf(name, sizeof name, "ckpt/step_%d/rank_%d.dat", step, rank);
    if (unlink(name) != 0) sim_fail("cannot remove", name);
  }
}

int main(int argc, char **argv) {
  sim_t sim;
  char name[256];
  int rewrite = argc > 1 && strcmp(argv[1], "rewrite") == 0;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 40; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    usleep(3000);
    if (sim.step % 5 != 0) continue;
    int shown = rewrite ? 0 : sim.step;
    if (sim.rank == 0) {
      sim_mkdir(&sim, shown);
      if (rewrite && sim.step > 5) discard(&sim, shown);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(name, sizeof name, "ckpt/step_%d/rank_%d.dat", shown, sim.rank);
    put(&sim, name);
  }
  for (int s = 0; s < 10; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    usleep(20000);
  }
  if (!rewrite && sim.rank == 0)
    for (int step = 10; step <= 40; step += 5) discard(&sim, step);
  MPI_Barrier(MPI_COMM_WORLD);
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
