/* The part that all programs share: the work, the search for the newest checkpoint, the output. */
#include "grid.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void grid_fail(const char *what, const char *path) {
  fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
  MPI_Abort(MPI_COMM_WORLD, 3);
}

uint64_t grid_first(const grid_t *grid, int rank) {
  return grid->total * (uint64_t)rank / (uint64_t)grid->size;
}

head_t grid_head(const grid_t *grid) {
  head_t head = {(uint64_t)grid->step, grid->total, grid->sum};
  return head;
}

int grid_is(const grid_t *grid, const char *mode) { return strcmp(grid->mode, mode) == 0; }

void grid_path(char *path, int step, const char *rest) {
  snprintf(path, GRID_PATH, "ckpt/step_%d%s", step, rest);
}

void grid_write(int fd, const void *bytes, size_t size, off_t at, const char *path) {
  const char *next = bytes;
  while (size > 0) {
    ssize_t done = pwrite(fd, next, size, at);
    if (done <= 0) grid_fail("cannot write", path);
    next += done, at += done, size -= (size_t)done;
  }
}

int grid_read(int fd, void *bytes, size_t size, off_t at) {
  char *next = bytes;
  while (size > 0) {
    ssize_t done = pread(fd, next, size, at);
    if (done <= 0) return 0;
    next += done, at += done, size -= (size_t)done;
  }
  return 1;
}

static uint64_t sum_of(const grid_t *grid) {
  uint64_t mine = 0, all = 0;
  for (uint64_t i = 0; i < grid->count; i++) {
    uint64_t mixed = (grid->cells[i] + grid->first + i) * 0x9e3779b97f4a7c15u;
    mine ^= mixed ^ (mixed >> 29);
  }
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  return all;
}

static void begin(grid_t *grid) {
  grid->step = 0;
  for (uint64_t i = 0; i < grid->count; i++) grid->cells[i] = (grid->first + i) * 2654435761u;
}

static void advance(grid_t *grid) {
  uint64_t at = (uint64_t)grid->step * 7919 % grid->total, mine = 0, carry = 0;
  if (at >= grid->first && at < grid->first + grid->count) mine = grid->cells[at - grid->first];
  MPI_Allreduce(&mine, &carry, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  for (uint64_t i = 0; i < grid->count; i++)
    grid->cells[i] = grid->cells[i] * 6364136223846793005u + carry + grid->first + i;
  grid->step++;
  grid->sum = sum_of(grid);
}

/* Rank 0 lists the directory; the largest step below `limit` there, 0 for none. */
static int newest_below(const grid_t *grid, int limit) {
  int found = 0, step;
  DIR *dir = grid->rank == 0 ? opendir("ckpt") : NULL;
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (sscanf(entry->d_name, "step_%d", &step) == 1 && step < limit && step > found) found = step;
  if (dir) closedir(dir);
  MPI_Bcast(&found, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return found;
}

/* Whether all ranks have read the same checkpoint and it is whole. */
static int load(grid_t *grid, int step) {
  head_t head = {0, 0, 0};
  int mine = grid_load(grid, step, &head), all = 0;
  mine = mine && head.step == (uint64_t)step && head.total == grid->total;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!all) return 0;
  grid->sum = sum_of(grid);
  mine = grid->sum == head.sum;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all;
}

static void restart(grid_t *grid) {
  int step = newest_below(grid, 1 << 30);
  for (; step > 0; step = newest_below(grid, step)) {
    if (load(grid, step)) break;
    if (grid->rank == 0) printf("unusable %d\n", step);
  }
  if (step == 0) begin(grid);
  if (step > 0) grid->step = step;
  if (grid->rank == 0) printf("from %d\n", grid->step);
}

static void run(grid_t *grid, int steps, int every, useconds_t pause) {
  if (grid->rank == 0) mkdir("ckpt", 0777);
  restart(grid);
  while (grid->step < steps) {
    advance(grid);
    if (grid->rank == 0) printf("step %d\n", grid->step), fflush(stdout);
    if (grid->step % every == 0) grid_save(grid);
    if (pause) usleep(pause);
  }
  if (grid->rank == 0) printf("result %016llx\n", (unsigned long long)grid->sum);
}

int main(int argc, char **argv) {
  grid_t grid;
  MPI_Init(&argc, &argv);
  if (argc < 5) return fprintf(stderr, "%s STEPS EVERY CELLS MICROSECONDS [mode]\n", argv[0]);
  MPI_Comm_rank(MPI_COMM_WORLD, &grid.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &grid.size);
  grid.total = strtoull(argv[3], NULL, 10);
  grid.first = grid_first(&grid, grid.rank);
  grid.count = grid_first(&grid, grid.rank + 1) - grid.first;
  grid.mode = argc > 5 ? argv[5] : "";
  grid.cells = malloc(grid.count * sizeof *grid.cells);
  if (!grid.cells) grid_fail("no memory for", "the cells");
  run(&grid, atoi(argv[1]), atoi(argv[2]), (useconds_t)atoi(argv[4]));
  free(grid.cells);
  MPI_Finalize();
  return 0;
}
