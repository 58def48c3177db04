/* The directory of the newest checkpoint has a second name, `ckpt/current`: rank 0 points it at
 * the next one, and all ranks write below it. By turns with symlink and rename, and with ln(1).
 * At first `current` is a directory, and no checkpoint. Each rank reads back what it has written,
 * under the directory's own name. */
#include "sim.h"

static void put(const char *name, int value) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) sim_fail("cannot make", name);
  if (write(fd, &value, sizeof value) != sizeof value || close(fd) != 0)
    sim_fail("cannot write", name);
}

static int get(const char *name) {
  int value = -1, fd = open(name, O_RDONLY);
  if (fd < 0) return -2;
  if (read(fd, &value, sizeof value) != sizeof value) value = -3;
  close(fd);
  return value;
}

static void point(int step, int by_child) {
  char to[64], command[128];
  snprintf(to, sizeof to, "step_%d", step);
  snprintf(command, sizeof command, "ln -sfn %s ckpt/current", to);
  if (by_child ? system(command) != 0
               : symlink(to, "ckpt/next") != 0 || rename("ckpt/next", "ckpt/current") != 0)
    sim_fail("cannot point", to);
}

int main(int argc, char **argv) {
  char below[64], plain[64];
  sim_t sim;
  int wrong = 0, all = 0;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  snprintf(below, sizeof below, "ckpt/current/rank_%d.dat", sim.rank);
  for (int step = 1; step <= 8; step++) {
    snprintf(plain, sizeof plain, "ckpt/step_%d/rank_%d.dat", step, sim.rank);
    if (sim.rank == 0) {
      sim.step = step;
      sim_mkdir(&sim, step);
      if (step == 1 && mkdir("ckpt/current", 0777) != 0) sim_fail("cannot make", "ckpt/current");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (step <= 2) put(plain, -step);
    if (step == 1) put(below, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (sim.rank == 0 && step == 2 && rename("ckpt/current", "ckpt/old") != 0)
      sim_fail("cannot rename", "ckpt/current");
    if (sim.rank == 0 && step > 1) point(step, step % 2);
    MPI_Barrier(MPI_COMM_WORLD);
    put(below, step);
    if (step > 1 && get(plain) != step) wrong++;
    for (int s = 0; s < 5; s++) sim_step(&sim, MPI_COMM_WORLD);
  }
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (sim.rank == 0) printf("wrong %d\n", all);
  MPI_Finalize();
  return 0;
}
