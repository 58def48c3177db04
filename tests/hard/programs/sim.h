/* A tiny simulation shared by the hard cases: a vector a rank, a step that mixes it through the
 * world, a checkpoint a file a rank, a restart from the newest checkpoint that is complete.
 * Plain MPI and POSIX; the final checksum depends on every step, so a wrong restart shows. */
#ifndef SIM_H
#define SIM_H
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIM_CELLS 4096

typedef struct {
  int rank, size, step;
  uint64_t cells[SIM_CELLS];
} sim_t;

static void sim_fail(const char *what, const char *path) {
  fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static inline void sim_init(sim_t *sim) {
  MPI_Comm_rank(MPI_COMM_WORLD, &sim->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &sim->size);
  sim->step = 0;
  for (int i = 0; i < SIM_CELLS; i++) sim->cells[i] = (uint64_t)(sim->rank + 1) * 2654435761u + i;
}

/* One step without communication; `carry` comes from the program's own exchange. */
static inline uint64_t sim_local(sim_t *sim, uint64_t carry) {
  uint64_t sum = 0;
  for (int i = 0; i < SIM_CELLS; i++) {
    sim->cells[i] = sim->cells[i] * 6364136223846793005u + carry + (uint64_t)i;
    sum ^= sim->cells[i];
  }
  sim->step++;
  return sum;
}

static inline void sim_step(sim_t *sim, MPI_Comm comm) {
  uint64_t mine = sim->cells[sim->step % SIM_CELLS], all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, comm);
  sim_local(sim, all);
}

/* Synchronising calls during which checkpoints can be sealed, with a pause after each. */
static inline void sim_calm(int calls, int microseconds) {
  for (int i = 0; i < calls; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(microseconds);
  }
}

static inline void sim_path(char *path, size_t bytes, const sim_t *sim, int step) {
  snprintf(path, bytes, "ckpt/step_%d/rank_%d.dat", step, sim->rank);
}

static inline void sim_mkdir(const sim_t *sim, int step) {
  char dir[256];
  (void)sim;
  snprintf(dir, sizeof dir, "ckpt/step_%d", step);
  mkdir("ckpt", 0777);
  if (mkdir(dir, 0777) != 0 && errno != EEXIST) sim_fail("cannot make", dir);
}

/* Writes this rank's file; no communication, so that a case decides what surrounds it. */
static inline void sim_checkpoint(const sim_t *sim) {
  char path[256];
  sim_mkdir(sim, sim->step);
  sim_path(path, sizeof path, sim, sim->step);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) sim_fail("cannot open", path);
  if (write(fd, sim, sizeof *sim) != (ssize_t)sizeof *sim) sim_fail("cannot write", path);
  if (close(fd) != 0) sim_fail("cannot close", path);
}

/* Reads this rank's file of `step`; 0 when there is none or it is short. */
static inline int sim_read(sim_t *sim, int step) {
  char path[256];
  sim_t found;
  sim_path(path, sizeof path, sim, step);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  ssize_t got = read(fd, &found, sizeof found);
  close(fd);
  if (got != (ssize_t)sizeof found || found.step != step || found.rank != sim->rank) return 0;
  *sim = found;
  return 1;
}

/* What a rank that is killed has told is told. */
static inline void sim_tell_restart(const sim_t *sim, int step) {
  if (sim->rank == 0) {
    printf("restart %d\n", step);
    fflush(stdout);
  }
}

/* Goes on from the largest multiple of `every` below `steps` that every rank can read. */
static inline void sim_restart(sim_t *sim, int steps, int every, MPI_Comm comm) {
  for (int step = steps - steps % every; step > 0; step -= every) {
    sim_t copy = *sim;
    int mine = sim_read(&copy, step), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
    if (all) {
      *sim = copy;
      sim_tell_restart(sim, step);
      return;
    }
  }
  sim_tell_restart(sim, 0);
}

static inline void sim_finish(const sim_t *sim, MPI_Comm comm) {
  uint64_t mine = 0, all = 0;
  for (int i = 0; i < SIM_CELLS; i++) mine = mine * 31 + sim->cells[i];
  MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, comm);
  if (sim->rank == 0) {
    printf("checksum %016llx\n", (unsigned long long)all);
    fflush(stdout);
  }
}
#endif
