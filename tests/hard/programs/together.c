/* Several ranks write one file of each checkpoint, a part each, beside a file a rank.
 *
 * usage: together MANNER STEPS
 * at-once: all have it open at the same time. baton: one after another, each opens it when the one
 * before has closed it. first-made: rank 0 makes it and keeps it open while the others open it,
 * write and close. truncated: as at-once, and rank 0 has truncated it. appended: each appends its
 * part, one after another.
 * The last line tells the sum over all files, read back by rank 0. */
#include "sim.h"

static int is(const char *manner, const char *name) { return strcmp(manner, name) == 0; }

static int open_shared(const char *name, int flags) {
  int fd = open(name, O_WRONLY | flags, 0666);
  if (fd < 0) sim_fail("cannot open", name);
  return fd;
}

static void write_part(const sim_t *sim, const char *name, int fd) {
  const char *bytes = (const char *)sim->cells;
  size_t size = sizeof sim->cells, half = size / 2;
  off_t start = (off_t)sim->rank * (off_t)size;
  if (pwrite(fd, bytes, half, start) != (ssize_t)half) sim_fail("cannot write", name);
  if (pwrite(fd, bytes + half, half, start + (off_t)half) != (ssize_t)half)
    sim_fail("cannot write", name);
}

static void close_shared(const char *name, int fd) {
  if (close(fd) != 0) sim_fail("cannot close", name);
}

static void in_turns(const sim_t *sim, const char *name, int flags) {
  for (int turn = 0; turn < sim->size; turn++) {
    if (sim->rank == turn) {
      int fd = open_shared(name, O_CREAT | flags);
      ssize_t size = sizeof sim->cells;
      if (flags == 0) write_part(sim, name, fd);
      else if (write(fd, sim->cells, (size_t)size) != size) sim_fail("cannot write", name);
      close_shared(name, fd);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void write_shared(const sim_t *sim, const char *manner, const char *name) {
  if (is(manner, "baton")) return in_turns(sim, name, 0);
  if (is(manner, "appended")) return in_turns(sim, name, O_APPEND);
  int truncate = is(manner, "truncated") ? O_TRUNC : 0, fd = -1;
  if (is(manner, "at-once")) fd = open_shared(name, O_CREAT);
  else if (sim->rank == 0) fd = open_shared(name, O_CREAT | truncate);
  MPI_Barrier(MPI_COMM_WORLD);
  if (fd < 0) fd = open_shared(name, 0);
  write_part(sim, name, fd);
  if (sim->rank != 0) close_shared(name, fd);
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim->rank == 0) close_shared(name, fd);
}

static uint64_t sum_of(const char *name) {
  FILE *stream = fopen(name, "rb");
  uint64_t sum = 0, word;
  if (!stream) sim_fail("cannot read", name);
  while (fread(&word, sizeof word, 1, stream) == 1) sum = sum * 31 + word;
  fclose(stream);
  return sum;
}

int main(int argc, char **argv) {
  sim_t sim;
  const char *manner = argc > 1 ? argv[1] : "at-once";
  int steps = argc > 2 ? atoi(argv[2]) : 30;
  uint64_t sum = 0;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < steps; s++) {
    char name[256];
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 != 0) continue;
    sim_checkpoint(&sim);
    snprintf(name, sizeof name, "ckpt/step_%d/shared.dat", sim.step);
    MPI_Barrier(MPI_COMM_WORLD); /* the directory is there */
    write_shared(&sim, manner, name);
    MPI_Barrier(MPI_COMM_WORLD);
    if (sim.rank == 0) sum += sum_of(name);
  }
  if (sim.rank == 0) printf("sum %016llx\n", (unsigned long long)sum);
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
