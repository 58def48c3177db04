/* Checkpoints of one file a rank, for what happens around them.
 *
 * usage: restart init MIB     prints the seconds of MPI_Init
 *        restart die MIB      two checkpoints, and a death that leaves them in the cache
 *        restart read MIB     prints the seconds of MPI_Init, and reads the newer one back */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 4 << 20, BARRIERS = 100, LAST = 2 };

static size_t bytes;
static char *data;
static int rank;

static void fail(const char *what) {
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int open_checkpoint(int step, int flags) {
  char path[64];
  snprintf(path, sizeof path, "ckpt/step_%d", step);
  mkdir("ckpt", 0777);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", step, rank);
  int fd = open(path, flags, 0666);
  if (fd < 0) fail(path);
  return fd;
}

static void write_data(int fd) {
  for (size_t at = 0; at < bytes; at += PIECE) {
    ssize_t count = bytes - at < PIECE ? bytes - at : PIECE;
    if (write(fd, data + at, count) != count) fail("write");
  }
  if (close(fd) != 0) fail("close");
}

static void write_checkpoint(int step) {
  write_data(open_checkpoint(step, O_WRONLY | O_CREAT | O_TRUNC));
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* The seal happens in one of the synchronising calls after the close. */
static void settle(void) {
  for (int i = 0; i < BARRIERS; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(5000);
  }
}

static double slowest(double own) {
  double all = 0;
  MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD); /* no sync point */
  MPI_Bcast(&all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return all;
}

static void read_checkpoint(int step) {
  char *found = malloc(PIECE);
  int fd = open_checkpoint(step, O_RDONLY);
  for (size_t at = 0; at < bytes; at += PIECE)
    if (read(fd, found, PIECE) != PIECE || memcmp(found, data + at, PIECE) != 0) fail("read");
  close(fd);
  free(found);
}

int main(int argc, char **argv) {
  double begun = now();
  MPI_Init(&argc, &argv);
  double started = now() - begun;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  started = slowest(started);
  if (strcmp(argv[1], "die") != 0 && rank == 0) printf("%.6f\n", started);
  fflush(stdout);
  if (strcmp(argv[1], "init") == 0) {
    MPI_Finalize();
    return 0;
  }
  bytes = (size_t)atoi(argv[2]) << 20;
  data = malloc(bytes);
  for (size_t i = 0; i < bytes; i++) data[i] = (char)(i * 31 + (size_t)rank);
  if (strcmp(argv[1], "die") == 0) {
    for (int step = 1; step <= LAST; step++) {
      write_checkpoint(step);
      settle();
    }
  } else {
    read_checkpoint(LAST);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  raise(SIGKILL); /* no flush of all of it */
  return 0;
}
