/* Goes on after a checkpoint that could not be opened or written, with a word on it: argv[1] steps,
 * argv[2] every, argv[3] the step at which rank 0 kills itself (0: never). */
#include <signal.h>

#include "sim.h"

static void checkpoint(const sim_t *sim) {
  char path[256];
  sim_mkdir(sim, sim->step);
  sim_path(path, sizeof path, sim, sim->step);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) {
    printf("cannot open %s\n", path);
    fflush(stdout);
    return;
  }
  int failed = write(fd, sim, sizeof *sim) != (ssize_t)sizeof *sim;
  failed |= fsync(fd) != 0;
  failed |= close(fd) != 0;
  if (failed) {
    printf("%s failed: %s\n", path, strerror(errno));
    fflush(stdout);
  }
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]), die = atoi(argv[3]);
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim_restart(&sim, steps, every, MPI_COMM_WORLD);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) {
      checkpoint(&sim);
      sim_calm(100, 1000);
    }
    if (sim.step == die && sim.rank == 0) raise(SIGKILL);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
