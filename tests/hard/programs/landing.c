/* Hard links to cached files, and a directory with cached files in it that is renamed. */
#include "sim.h"

static int same_content(const char *path, const sim_t *sim) {
  sim_t found;
  int fd = open(path, O_RDONLY);
  ssize_t got = fd < 0 ? -1 : read(fd, &found, sizeof found);
  if (fd >= 0) close(fd);
  return got == (ssize_t)sizeof found && memcmp(&found, sim, sizeof found) == 0;
}

static int there(const char *path) {
  struct stat st;
  return stat(path, &st) == 0;
}

static void act(const sim_t *sim) {
  int linked = link("ckpt/step_3/rank_0.dat", "keep.dat");
  printf("link %d content %d\n", linked, same_content("keep.dat", sim));
  int again = link("ckpt/step_3/rank_0.dat", "keep.dat") != 0 && errno == EEXIST;
  printf("link again EEXIST %d\n", again);
  mkdir("ckpt/step_7", 0777);
  int inside = link("ckpt/step_3/rank_0.dat", "ckpt/step_7/rank_0.dat");
  printf("link %d content %d\n", inside, same_content("ckpt/step_7/rank_0.dat", sim));
  int renamed = rename("ckpt/step_3", "ckpt/moved");
  printf("rename %d content %d\n", renamed, same_content("ckpt/moved/rank_0.dat", sim));
  for (int rank = 0; rank < sim->size; rank++) {
    char old[64], new[64];
    snprintf(old, sizeof old, "ckpt/step_3/rank_%d.dat", rank);
    snprintf(new, sizeof new, "ckpt/moved/rank_%d.dat", rank);
    printf("rank %d old %d new %d\n", rank, there(old), there(new));
  }
  printf("old directory %d\n", there("ckpt/step_3"));
  fflush(stdout);
}

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int step = 1; step <= 5; step++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    sim_calm(100, 1000);
    if (step == 3 && sim.rank == 0) act(&sim);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
