/* A checkpoint is opened for update and only read; newer ones are written, then the handle is used
 * again: argv[1] "read" or "write"; "delete": rank 0 removes the file of rank 1 before. Rank 1
 * prints what it reads at each stage. */
#include <stddef.h>

#include "sim.h"

static void settle(void) {
  sim_calm(20, 5000);
}

static void checkpoint(sim_t *sim) {
  sim_step(sim, MPI_COMM_WORLD);
  sim_checkpoint(sim);
  settle();
}

static void show(const sim_t *sim, int fd, const char *when) {
  sim_t found;
  if (pread(fd, &found, sizeof found, 0) != (ssize_t)sizeof found) sim_fail("cannot read", when);
  if (sim->rank == 1) printf("%s: step %d, %08x\n", when, found.step, (unsigned)found.cells[7]);
}

int main(int argc, char **argv) {
  char path[256];
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  checkpoint(&sim);
  checkpoint(&sim);
  sim_path(path, sizeof path, &sim, 2);
  int fd = open(path, O_RDWR);
  if (fd < 0) sim_fail("cannot open", path);
  int twin = open(path, O_RDWR);
  if (twin < 0) sim_fail("cannot open", path);
  show(&sim, fd, "before");
  if (!strcmp(argv[1], "delete")) {
    sim_t other = sim;
    other.rank = 1;
    sim_path(path, sizeof path, &other, 2);
    MPI_Barrier(MPI_COMM_WORLD);  // rank 1 has it open
    if (sim.rank == 0 && unlink(path) != 0) sim_fail("cannot remove", path);
    settle();
  }
  checkpoint(&sim);
  checkpoint(&sim);
  show(&sim, fd, "later");
  if (strcmp(argv[1], "read") != 0) {
    unsigned value = 4711;
    if (pwrite(fd, &value, sizeof value, offsetof(sim_t, cells[7])) != (ssize_t)sizeof value)
      sim_fail("cannot write", path);
  }
  show(&sim, twin, "at the end");
  close(fd);
  close(twin);
  settle();
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
