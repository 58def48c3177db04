/* Processes that the ranks start pack the files of each checkpoint (`gzip`), or give them their
 * names (`mv`); argv[1] is the program. */
#include "sim.h"

int main(int argc, char **argv) {
  sim_t sim;
  char path[200], command[500];
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int step = 1; step <= 3 && argc > 1; step++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    sim_path(path, sizeof path, &sim, step);
    snprintf(command, sizeof command, "%s %s", argv[1], path);
    if (argc > 2) snprintf(command, sizeof command, "%s %s %s.%s", argv[1], path, path, argv[2]);
    if (system(command) != 0) sim_fail("cannot run", command);
    sim_calm(5, 1000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
