/* Writes argv[1] checkpoints and reads them again at its end, as programs do that look for the best
 * of them or go backwards through them. argv[2]: each is deleted when so many newer ones are
 * written (0: none). argv[3]: the whole run is killed before the end, if it is there. */
#include "sim.h"

#include <signal.h>

static void delete_own(const sim_t *sim, int step) {
  char path[256], *end;
  sim_path(path, sizeof path, sim, step);
  if (unlink(path) != 0) sim_fail("cannot delete", path);
  MPI_Barrier(MPI_COMM_WORLD);
  end = strrchr(path, '/');
  *end = 0;
  if (sim->rank == 0 && rmdir(path) != 0) sim_fail("cannot remove", path);
}

int main(int argc, char **argv) {
  int count = atoi(argv[1]), distance = atoi(argv[2]), found = 0;
  sim_t sim, copy;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim_restart(&sim, count, 1, MPI_COMM_WORLD);
  while (sim.step < count) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    sim_calm(20, 1000);
    if (distance > 0 && sim.step > distance) delete_own(&sim, sim.step - distance);
  }
  if (argc > 3) {
    sim_calm(20, 1000);
    raise(SIGKILL);
  }
  for (int step = count; step > 0; step--) {
    copy = sim;
    int mine = sim_read(&copy, step), all = 0;
    MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    found += all;
    if (sim.rank == 0 && all) printf("found %d\n", step);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
