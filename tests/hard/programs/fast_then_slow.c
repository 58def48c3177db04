/* Two million fast collectives (argv[1]), then slow steps with checkpoints: a rhythm learned from
 * the fast ones must not starve the agreement in the slow ones. Before the end rank 0 makes the
 * file argv[2] and waits until it is removed. */
#include "sim.h"

int main(int argc, char **argv) {
  long fast = argc > 1 ? atol(argv[1]) : 2000000;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (long i = 0; i < fast; i++) {
    long x = i, y;
    MPI_Allreduce(&x, &y, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
  }
  for (int s = 0; s < 200; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    usleep(5000);
    if (sim.step % 20 == 0) sim_checkpoint(&sim);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  if (argc > 2 && sim.rank == 0) {
    struct stat st;
    int fd = open(argv[2], O_CREAT | O_WRONLY, 0666);
    if (fd >= 0) close(fd);
    while (stat(argv[2], &st) == 0) usleep(10000);
  }
  MPI_Finalize();
  return 0;
}
