/* The plain case with two handles for a test: argv[1] steps, argv[2] every, argv[3] step at which
 * rank 0 makes the file argv[4] and all wait until it is removed; -1: a calm time after each
 * checkpoint. */
#include "sim.h"

static void calm(void) { /* synchronising calls during which a seal can happen */
  sim_calm(200, 1000);
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]), pause = argc > 3 ? atoi(argv[3]) : 0;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim_restart(&sim, steps, every, MPI_COMM_WORLD);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) {
      sim_checkpoint(&sim);
      if (pause < 0) calm();
    }
    if (sim.step == pause) {
      calm();
      if (sim.rank == 0) {
        struct stat st;
        int fd = open(argv[4], O_CREAT | O_WRONLY, 0666);
        if (fd >= 0) close(fd);
        while (stat(argv[4], &st) == 0) usleep(10000);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
