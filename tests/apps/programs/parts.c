/* A file a rank. Mode `look`: after a barrier, rank 0 reads everybody's part and prints what it
 * finds; `look_late`: it begins to only at its fifth checkpoint. At a restart, whose ranks may be
 * fewer or more, every rank reads the parts that it needs; mode `root_reads`: rank 0 reads all for
 * the others. */
#include "grid.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What stands before the cells of a part. */
typedef struct {
  head_t head;
  uint64_t parts, first, count;
} part_t;

static void part_path(char *path, int step, int part) {
  char rest[32];
  snprintf(rest, sizeof rest, "/part_%d", part);
  grid_path(path, step, rest);
}

static int open_part(int step, int number, part_t *part) {
  char path[GRID_PATH];
  part_path(path, step, number);
  int fd = open(path, O_RDONLY);
  if (fd >= 0 && grid_read(fd, part, sizeof *part, 0)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/* Rank 0 reads what the others have just written. */
static void look(const grid_t *grid) {
  uint64_t mixed = 0, cell = 0;
  part_t part;
  for (int rank = 0; rank < grid->size; rank++) {
    int fd = open_part(grid->step, rank, &part);
    off_t last = (off_t)(sizeof part + (part.count - 1) * sizeof cell);
    if (fd < 0 || !grid_read(fd, &cell, sizeof cell, last)) grid_fail("cannot read", "a part");
    if (part.head.step != (uint64_t)grid->step) grid_fail("an old step in", "a part");
    mixed = mixed * 31 + cell;
    close(fd);
  }
  printf("looked %d %016llx\n", grid->step, (unsigned long long)mixed);
}

void grid_save(const grid_t *grid) {
  static int saved;
  char path[GRID_PATH];
  part_t part = {grid_head(grid), (uint64_t)grid->size, grid->first, grid->count};
  grid_path(path, grid->step, "");
  mkdir(path, 0777);
  part_path(path, grid->step, grid->rank);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) grid_fail("cannot open", path);
  grid_write(fd, &part, sizeof part, 0, path);
  grid_write(fd, grid->cells, grid->count * sizeof *grid->cells, sizeof part, path);
  if (close(fd) != 0) grid_fail("cannot close", path);
  saved++;
  if (grid_is(grid, "look") || (grid_is(grid, "look_late") && saved >= 5)) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (grid->rank == 0) look(grid);
  }
}

/* Fills `cells`, which are `count` from `first` on, from all parts that have some of them. */
static int collect(int step, uint64_t first, uint64_t count, uint64_t *cells, head_t *head) {
  part_t part = {{0, 0, 0}, 1, 0, 0};
  uint64_t found = 0;
  for (int number = 0; number < (int)part.parts; number++) {
    int fd = open_part(step, number, &part);
    if (fd < 0) return 0;
    uint64_t low = part.first > first ? part.first : first, high = part.first + part.count;
    if (high > first + count) high = first + count;
    if (high > low) {
      off_t at = (off_t)(sizeof part + (low - part.first) * sizeof *cells);
      found += high - low;
      if (!grid_read(fd, cells + (low - first), (high - low) * sizeof *cells, at)) found = 0;
    }
    close(fd);
  }
  *head = part.head;
  return found == count;
}

static int root_reads(grid_t *grid, int step, head_t *head) {
  uint64_t *all = grid->rank == 0 ? malloc(grid->total * sizeof *all) : NULL;
  int good = grid->rank != 0 || (all && collect(step, 0, grid->total, all, head));
  MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(head, sizeof *head, MPI_BYTE, 0, MPI_COMM_WORLD);
  for (int rank = 1; good && rank < grid->size && grid->rank == 0; rank++) {
    uint64_t first = grid_first(grid, rank), count = grid_first(grid, rank + 1) - first;
    MPI_Send(all + first, (int)count, MPI_UINT64_T, rank, 9, MPI_COMM_WORLD);
  }
  if (good && grid->rank > 0)
    MPI_Recv(grid->cells, (int)grid->count, MPI_UINT64_T, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (uint64_t i = 0; good && grid->rank == 0 && i < grid->count; i++) grid->cells[i] = all[i];
  free(all);
  return good;
}

int grid_load(grid_t *grid, int step, head_t *head) {
  if (grid_is(grid, "root_reads")) return root_reads(grid, step, head);
  return collect(step, grid->first, grid->count, grid->cells, head);
}
