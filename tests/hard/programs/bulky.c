/* The plain case with argv[3] KiB more in each file, all of which a restart checks. argv[1] steps,
 * argv[2] every; at step argv[4] rank 0 makes the file argv[5] and all wait until it is removed;
 * before the checkpoint of step argv[6] rank 0 leaves argv[7] KiB of the store in which argv[8] is
 * a file of its own, and gives the rest back later. */
#include <sys/statvfs.h>

#include "sim.h"

static size_t size;
static char *bulk;

static void fill(const sim_t *sim, int step) {
  uint64_t state = (uint64_t)step * 1000003u + (uint64_t)sim->rank + 1;
  for (size_t i = 0; i < size; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bulk[i] = (char)(state >> 56);
  }
}

static void bulk_path(char *path, size_t bytes, const sim_t *sim, int step) {
  snprintf(path, bytes, "ckpt/step_%d/bulk_%d.dat", step, sim->rank);
}

static void write_bulk(const sim_t *sim) {
  char path[256];
  bulk_path(path, sizeof path, sim, sim->step);
  sim_mkdir(sim, sim->step);
  fill(sim, sim->step);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || write(fd, bulk, size) != (ssize_t)size || close(fd) != 0)
    sim_fail("cannot write", path);
}

static void check_bulk(const sim_t *sim) {
  char path[256], *found = malloc(size);
  bulk_path(path, sizeof path, sim, sim->step);
  fill(sim, sim->step);
  int fd = open(path, O_RDONLY);
  if (fd < 0 || read(fd, found, size) != (ssize_t)size || memcmp(found, bulk, size) != 0)
    sim_fail("wrong content", path);
  close(fd);
  free(found);
}

static void eat(const char *left_kib, const char *store) {
  struct statvfs there;
  int fd = open(store, O_WRONLY | O_CREAT, 0600);
  if (fd < 0 || fstatvfs(fd, &there) != 0) sim_fail("cannot eat", store);
  long long free_bytes = (long long)there.f_bavail * (long long)there.f_bsize;
  long long more = free_bytes - ((long long)atoi(left_kib) << 10);
  if (more > 0 && posix_fallocate(fd, 0, more) != 0) sim_fail("cannot eat", store);
  close(fd);
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]);
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  size = (size_t)atoi(argv[3]) << 10;
  bulk = malloc(size);
  sim_restart(&sim, steps, every, MPI_COMM_WORLD);
  if (sim.step > 0) check_bulk(&sim);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) {
      int eats = argc > 8 && sim.rank == 0 && sim.step == atoi(argv[6]);
      if (eats) eat(argv[7], argv[8]);
      MPI_Barrier(MPI_COMM_WORLD);
      sim_checkpoint(&sim);
      write_bulk(&sim);
      sim_calm(200, 1000);
      if (eats) unlink(argv[8]);
    }
    if (argc > 5 && sim.step == atoi(argv[4])) {
      struct stat there;
      int fd = sim.rank == 0 ? open(argv[5], O_CREAT | O_WRONLY, 0666) : -1;
      if (fd >= 0) close(fd);
      while (sim.rank == 0 && stat(argv[5], &there) == 0) usleep(10000);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  free(bulk);
  MPI_Finalize();
  return 0;
}
