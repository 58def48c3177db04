/* What the C and C++ examples share: arguments, the simulation itself, and the pause. File I/O is
 * each program's own. */
#ifndef HEAT_H
#define HEAT_H
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAT_CELLS 20000

typedef struct {
  int steps, every, delay_ms, from, pause_step;
  const char *pause_where, *pause_file;
  int rank, size, step;
  double total, cells[HEAT_CELLS];
} heat_t;

static inline void heat_fail(const char *what, const char *path) {
  fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void heat_arguments(heat_t *heat, int argc, char **argv) {
  heat->steps = 60; heat->every = 10; heat->delay_ms = 0; heat->from = -1;
  heat->pause_step = -1; heat->pause_where = ""; heat->pause_file = "";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--steps")) heat->steps = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--every")) heat->every = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--delay")) heat->delay_ms = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--from")) heat->from = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--pause") && i + 3 < argc) {
      heat->pause_where = argv[i + 1];
      heat->pause_step = atoi(argv[i + 2]);
      heat->pause_file = argv[i + 3];
      i += 2;
    } else { fprintf(stderr, "unknown argument %s\n", argv[i]); MPI_Abort(MPI_COMM_WORLD, 2); }
  }
}

static void heat_start(heat_t *heat, int argc, char **argv) {
  heat_arguments(heat, argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &heat->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &heat->size);
  heat->step = 0;
  heat->total = 0;
  for (int i = 0; i < HEAT_CELLS; i++) heat->cells[i] = (heat->rank * 31 + i * 7) % 101;
}

/* Rank 0 makes the file and waits until somebody removes it. */
static void heat_pause(const heat_t *heat, const char *where, int step) {
  struct stat st;
  if (heat->rank != 0 || step != heat->pause_step || strcmp(where, heat->pause_where)) return;
  int fd = open(heat->pause_file, O_CREAT | O_WRONLY, 0666);
  if (fd >= 0) close(fd);
  while (stat(heat->pause_file, &st) == 0) usleep(5000);
}

static void heat_step(heat_t *heat) {
  int left = (heat->rank + heat->size - 1) % heat->size, right = (heat->rank + 1) % heat->size;
  double from_left, from_right, before, here, sum = 0;
  double *cells = heat->cells;
  MPI_Sendrecv(&cells[HEAT_CELLS - 1], 1, MPI_DOUBLE, right, 1, &from_left, 1, MPI_DOUBLE, left, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&cells[0], 1, MPI_DOUBLE, left, 2, &from_right, 1, MPI_DOUBLE, right, 2,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  before = from_left;
  for (int i = 0; i < HEAT_CELLS; i++) {
    double after = i + 1 < HEAT_CELLS ? cells[i + 1] : from_right;
    here = cells[i];
    cells[i] = 0.25 * before + 0.5 * here + 0.25 * after + (i % 13 == heat->step % 13 ? 0.01 : 0);
    before = here;
    sum += cells[i];
  }
  MPI_Allreduce(&sum, &heat->total, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  heat->step++;
  if (heat->delay_ms) usleep(1000 * heat->delay_ms);
}

/* Bits of every cell of every rank, and the total. */
static void heat_finish(const heat_t *heat) {
  unsigned long long mine = 1469598103934665603ull, all = 0, bits;
  for (int i = 0; i < HEAT_CELLS; i++) {
    memcpy(&bits, &heat->cells[i], sizeof bits);
    mine = (mine ^ bits) * 1099511628211ull;
  }
  MPI_Reduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_BXOR, 0, MPI_COMM_WORLD);
  if (heat->rank == 0) {
    printf("step %d total %.6f checksum %016llx\n", heat->step, heat->total, all);
    fflush(stdout);
  }
}

static void heat_tell_restart(const heat_t *heat) {
  if (heat->rank != 0) return;
  if (heat->step) printf("going on from step %d\n", heat->step);
  else printf("starting at step 0\n");
  fflush(stdout);
}
#endif
