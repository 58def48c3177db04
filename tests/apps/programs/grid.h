/* A row of cells that all ranks advance together. The result does not depend on how many ranks
 * there are, so a restart may have fewer or more of them. Each program beside this file writes and
 * reads its checkpoints in one way of its own; the rest is in grid.c. Usage of each of them:
 *
 *     program STEPS EVERY CELLS MICROSECONDS [mode]
 */
#ifndef GRID_H
#define GRID_H
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#define GRID_PATH 256

typedef struct {
  int rank, size, step;
  uint64_t total, first, count; /* of cells: all, before those of this rank, this rank's */
  uint64_t sum;                 /* over all cells; a checkpoint carries it */
  const char *mode;
  uint64_t *cells;
} grid_t;

/* What stands before the cells in every checkpoint. */
typedef struct {
  uint64_t step, total, sum;
} head_t;

/* Of each program. All ranks call both. `grid_load` fills this rank's cells and the head; it
 * returns 0 when this rank cannot read them. */
void grid_save(const grid_t *grid);
int grid_load(grid_t *grid, int step, head_t *head);

/* First cell of a rank; that of rank `size` is the number of cells. */
uint64_t grid_first(const grid_t *grid, int rank);
head_t grid_head(const grid_t *grid);
int grid_is(const grid_t *grid, const char *mode);
void grid_fail(const char *what, const char *path);
/* ckpt/step_<step><rest> */
void grid_path(char *path, int step, const char *rest);
/* Plain writes and reads of everything, or the end of the run. */
void grid_write(int fd, const void *bytes, size_t size, off_t at, const char *path);
/* Returns 0 when there is less in the file. */
int grid_read(int fd, void *bytes, size_t size, off_t at);
#endif
