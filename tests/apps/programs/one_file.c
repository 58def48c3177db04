/* Several ranks write one POSIX file. Mode `two`: the cells are in two files, each written by half
 * of the ranks at once. Mode `baton`: one file, to which one rank after the other appends. Mode
 * `root`: rank 0 collects and writes all. At a restart every rank reads what it needs of them. */
#include "grid.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CELL ((off_t)sizeof(uint64_t))

/* The part of this rank's cells that lies in half `half`: first and number, in cells. */
static uint64_t overlap(const grid_t *grid, int half, uint64_t *first) {
  uint64_t middle = grid->total / 2, low = half ? middle : 0, high = half ? grid->total : middle;
  uint64_t end = grid->first + grid->count;
  *first = grid->first > low ? grid->first : low;
  end = end < high ? end : high;
  return end > *first ? end - *first : 0;
}

static const char *half_name(int half) { return half ? "/half_1" : "/half_0"; }

static void make_dir(const grid_t *grid) {
  char path[GRID_PATH];
  grid_path(path, grid->step, "");
  if (grid->rank == 0) mkdir(path, 0777);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void save_two(const grid_t *grid) {
  char path[GRID_PATH];
  uint64_t first;
  head_t head = grid_head(grid);
  for (int half = 0; half < 2; half++) {
    uint64_t count = overlap(grid, half, &first), from = half ? grid->total / 2 : 0;
    if (count == 0) continue;
    grid_path(path, grid->step, half_name(half));
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    if (fd < 0) grid_fail("cannot open", path);
    if (first == from) grid_write(fd, &head, sizeof head, 0, path);
    off_t at = (off_t)sizeof head + (off_t)(first - from) * CELL;
    grid_write(fd, grid->cells + (first - grid->first), count * sizeof first, at, path);
    if (close(fd) != 0) grid_fail("cannot close", path);
  }
}

static void save_baton(const grid_t *grid) {
  char path[GRID_PATH];
  int baton = 0;
  head_t head = grid_head(grid);
  grid_path(path, grid->step, "/all");
  if (grid->rank > 0)
    MPI_Recv(&baton, 1, MPI_INT, grid->rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  FILE *file = fopen(path, grid->rank == 0 ? "w" : "a");
  if (!file) grid_fail("cannot open", path);
  if (grid->rank == 0) fwrite(&head, sizeof head, 1, file);
  fwrite(grid->cells, sizeof *grid->cells, grid->count, file);
  if (fclose(file) != 0) grid_fail("cannot write", path);
  if (grid->rank + 1 < grid->size)
    MPI_Send(&baton, 1, MPI_INT, grid->rank + 1, 7, MPI_COMM_WORLD);
}

static void save_root(const grid_t *grid) {
  char path[GRID_PATH];
  int *counts = calloc(2 * (size_t)grid->size, sizeof *counts), *firsts = counts + grid->size;
  uint64_t *all = malloc(grid->rank == 0 ? grid->total * sizeof *all : 1);
  if (!counts || !all) grid_fail("no memory for", "all cells");
  for (int rank = 0; rank < grid->size; rank++) {
    firsts[rank] = (int)grid_first(grid, rank);
    counts[rank] = (int)grid_first(grid, rank + 1) - firsts[rank];
  }
  MPI_Gatherv(grid->cells, (int)grid->count, MPI_UINT64_T, all, counts, firsts, MPI_UINT64_T, 0,
              MPI_COMM_WORLD);
  if (grid->rank == 0) {
    head_t head = grid_head(grid);
    grid_path(path, grid->step, "/all");
    FILE *file = fopen(path, "w");
    if (!file) grid_fail("cannot open", path);
    fwrite(&head, sizeof head, 1, file);
    fwrite(all, sizeof *all, grid->total, file);
    if (fclose(file) != 0) grid_fail("cannot write", path);
  }
  free(counts), free(all);
}

void grid_save(const grid_t *grid) {
  make_dir(grid);
  if (grid_is(grid, "two")) save_two(grid);
  if (grid_is(grid, "baton")) save_baton(grid);
  if (grid_is(grid, "root")) save_root(grid);
}

/* Cells `first` to `first + count` of a file that begins with cell `from`. */
static int load_part(grid_t *grid, const char *path, uint64_t from, uint64_t first, uint64_t count,
                     head_t *head) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  off_t at = (off_t)sizeof *head + (off_t)(first - from) * CELL;
  int good = grid_read(fd, head, sizeof *head, 0) &&
             grid_read(fd, grid->cells + (first - grid->first), count * sizeof first, at);
  close(fd);
  return good;
}

int grid_load(grid_t *grid, int step, head_t *head) {
  char path[GRID_PATH];
  uint64_t first;
  if (!grid_is(grid, "two")) {
    grid_path(path, step, "/all");
    return load_part(grid, path, 0, grid->first, grid->count, head);
  }
  for (int half = 0; half < 2; half++) {
    uint64_t count = overlap(grid, half, &first);
    grid_path(path, step, half_name(half));
    if (count && !load_part(grid, path, half ? grid->total / 2 : 0, first, count, head)) return 0;
  }
  return 1;
}
