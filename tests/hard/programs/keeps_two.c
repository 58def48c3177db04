/* The last two checkpoints are kept: after a new one each rank deletes its own file of the one
 * before the last two, then rank 0 the header and the directory. `latest`, a symlink, is replaced
 * by a rename. All ranks say in the end what they find. */
#include "sim.h"
#include <dirent.h>

#define STEPS 6

static sim_t sim;

static void make(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || write(fd, path, strlen(path)) < 0 || close(fd) != 0) sim_fail("cannot write", path);
}

static void drop(int step) {
  char path[256];
  sim_path(path, sizeof path, &sim, step);
  if (unlink(path) != 0) sim_fail("cannot delete", path);
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim.rank != 0) return;
  snprintf(path, sizeof path, "ckpt/step_%d/rank_header.dat", step);
  if (unlink(path) != 0) sim_fail("cannot delete", path);
  snprintf(path, sizeof path, "ckpt/step_%d", step);
  if (rmdir(path) != 0) printf("%s stays: %s\n", path, strerror(errno));
}

static void point_to(int step) {
  char target[64];
  snprintf(target, sizeof target, "step_%d", step);
  if (symlink(target, "ckpt/.new") != 0) sim_fail("cannot make", "ckpt/.new");
  if (rename("ckpt/.new", "ckpt/latest") != 0) sim_fail("cannot rename", "ckpt/.new");
}

static void look(void) {
  for (int step = 1; step <= STEPS; step++) {
    char path[64];
    snprintf(path, sizeof path, "ckpt/step_%d", step);
    DIR *dir = opendir(path);
    int entries = 0;
    while (dir && readdir(dir)) entries++;
    if (dir) closedir(dir);
    int found = dir ? entries : -1, least, most;
    MPI_Reduce(&found, &least, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&found, &most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (sim.rank == 0) printf("%s: %d to %d entries\n", path, least, most);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int step = 1; step <= STEPS; step++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_calm(40, 3000);
    sim_mkdir(&sim, step);
    MPI_Barrier(MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    if (sim.rank == 0) {
      char path[256];
      snprintf(path, sizeof path, "ckpt/step_%d/rank_header.dat", step);
      make(path);
      point_to(step);
    }
    if (step > 2) drop(step - 2); /* at once: the barrier in it seals this checkpoint */
  }
  sim_calm(40, 3000);
  look();
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
