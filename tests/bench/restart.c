/* Checkpoints of one file a rank, for what happens around them.
 *
 * usage: restart small COUNT  prints the milliseconds of each of that many checkpoints of 4 KiB,
 *                             each with the synchronising call in which it is sealed
 *        restart seal MIB DIRECTORY COUNT  by turns so many times: prints the seconds of a plain
 *                             file's write there, and of a checkpoint's, its seal included; what
 *                             is in the cache in the end stays there
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

enum { PIECE = 4 << 20, SMALL = 4096, WARM_UP = 20, BARRIERS = 60, LAST = 2 };

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

static void write_plain(const char *directory) {
  char path[4096];
  snprintf(path, sizeof path, "%s/plain_%d", directory, rank);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) fail(path);
  write_data(fd);
  unlink(path);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* The seal happens in one of the synchronising calls after the close: the seconds of that one. */
static double settle(void) {
  double longest = 0;
  for (int i = 0; i < BARRIERS; i++) {
    double begun = now();
    MPI_Barrier(MPI_COMM_WORLD);
    if (now() - begun > longest) longest = now() - begun;
    usleep(2000);
  }
  return longest;
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
  int is_small = strcmp(argv[1], "small") == 0, count = atoi(argv[2]);
  bytes = is_small ? SMALL : (size_t)count << 20;
  data = malloc(bytes);
  for (size_t i = 0; i < bytes; i++) data[i] = (char)(i * 31 + (size_t)rank);
  if (is_small) {
    for (int step = 1; step <= WARM_UP + count; step++) {
      begun = now();
      write_checkpoint(step);
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0 && step > WARM_UP) printf("%.6f\n", 1e3 * (now() - begun));
    }
  } else if (strcmp(argv[1], "seal") == 0) {
    for (int step = 1; step <= atoi(argv[4]); step++) {
      slowest(0);
      begun = now();
      write_plain(argv[3]);
      double plain = slowest(now() - begun);
      begun = now();
      write_checkpoint(step);
      double cached = slowest(now() - begun), sealed = slowest(settle());
      if (rank == 0) printf("%.6f %.6f\n", plain, cached + sealed);
    }
    fflush(stdout);
    slowest(0);
    raise(SIGKILL);
  } else if (strcmp(argv[1], "die") == 0) {
    for (int step = 1; step <= LAST; step++) {
      write_checkpoint(step);
      settle();
    }
    raise(SIGKILL);
  } else {
    started = slowest(started);
    if (rank == 0) printf("%.6f\n", started);
    fflush(stdout);
    read_checkpoint(LAST);
    MPI_Barrier(MPI_COMM_WORLD);
    raise(SIGKILL); /* no flush of all of it */
  }
  MPI_Finalize();
  return 0;
}
