/* A pointer file `ckpt/latest` names the newest checkpoint; the restart believes it. After a
 * roll-back it must not name a checkpoint that is gone. Arguments: steps, every, `link` if it is a
 * symbolic link. */
#include "sim.h"

static int read_pointer(void) {
  int step = 0;
  char to[64];
  ssize_t length = readlink("ckpt/latest", to, sizeof to - 1);
  if (length > 0) {
    to[length] = 0;
    return sscanf(to, "step_%d", &step) == 1 ? step : 0;
  }
  FILE *file = fopen("ckpt/latest", "r");
  if (!file) return 0;
  if (fscanf(file, "step_%d", &step) != 1) step = 0;
  fclose(file);
  return step;
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]), step = 0;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  if (sim.rank == 0) step = read_pointer();
  MPI_Bcast(&step, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (step > 0 && !sim_read(&sim, step)) {
    fprintf(stderr, "rank %d: the pointer names step %d, which cannot be read\n", sim.rank, step);
    MPI_Abort(MPI_COMM_WORLD, 5);
  }
  if (sim.rank == 0) { printf("restart %d\n", step); fflush(stdout); }
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    usleep(20000); /* longer than the settle time from one checkpoint to the next */
    if (sim.step % every == 0) {
      sim_checkpoint(&sim);
      MPI_Barrier(MPI_COMM_WORLD);
      if (sim.rank == 0) {
        char to[64];
        snprintf(to, sizeof to, "step_%d", sim.step);
        FILE *file = argc > 3 ? NULL : fopen("ckpt/latest.tmp", "w");
        if (file) {
          fprintf(file, "%s\n", to);
          fclose(file);
        } else if (symlink(to, "ckpt/latest.tmp") != 0) {
          sim_fail("cannot make", "ckpt/latest.tmp");
        }
        if (rename("ckpt/latest.tmp", "ckpt/latest") != 0) sim_fail("cannot rename", "ckpt/latest");
      }
    }
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
