/* One file a rank, opened without truncation and rewritten in place at every checkpoint, as
 * Fortran's default open does. argv[1] steps, argv[2] every, argv[3] step at which rank 0 is killed
 * right after its checkpoint (0: never), argv[4] milliseconds between steps. */
#include <signal.h>

#include "sim.h"

static void path_of(char *path, size_t bytes, const sim_t *sim) {
  snprintf(path, bytes, "ckpt/state_%d.dat", sim->rank);
}

static void checkpoint(const sim_t *sim) {
  char path[256];
  mkdir("ckpt", 0777);
  path_of(path, sizeof path, sim);
  int fd = open(path, O_RDWR | O_CREAT, 0666);
  if (fd < 0) sim_fail("cannot open", path);
  if (write(fd, sim, sizeof *sim) != (ssize_t)sizeof *sim) sim_fail("cannot write", path);
  if (close(fd) != 0) sim_fail("cannot close", path);
}

/* Goes on where all ranks stand at the same step; anything else begins anew. */
static void restart(sim_t *sim) {
  char path[256];
  sim_t found = *sim;
  path_of(path, sizeof path, sim);
  int fd = open(path, O_RDONLY);
  if (fd >= 0 && read(fd, &found, sizeof found) != (ssize_t)sizeof found) found = *sim;
  if (fd >= 0) close(fd);
  int least = 0, most = 0;
  MPI_Allreduce(&found.step, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&found.step, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (least == most && found.rank == sim->rank) *sim = found;
  if (sim->rank == 0) printf("restart %d\n", sim->step);
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]), die = atoi(argv[3]), pause = atoi(argv[4]);
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  restart(&sim);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) checkpoint(&sim);
    if (sim.step == die && sim.rank == 0) raise(SIGKILL);
    usleep((useconds_t)pause * 1000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
