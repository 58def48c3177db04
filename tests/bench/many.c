/* A checkpoint of many small files.
 *
 * usage: many die FILES     one of so many files a rank, left in the cache by a death
 *        many end           prints the seconds of MPI_Init and of MPI_Finalize, which flushes it */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1024, BARRIERS = 100 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void write_files(int rank, int files) {
  char path[64], data[BYTES] = "content";
  mkdir("ckpt", 0777);
  mkdir("ckpt/step_1", 0777);
  for (int file = 0; file < files; file++) {
    snprintf(path, sizeof path, "ckpt/step_1/rank_%d.%d.dat", rank, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, data, BYTES) != BYTES || close(fd) != 0) {
      perror(path);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

int main(int argc, char **argv) {
  double begin = now();
  MPI_Init(&argc, &argv);
  double init = now() - begin;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(argv[1], "die") == 0) {
    write_files(rank, atoi(argv[2]));
    for (int i = 0; i < BARRIERS; i++) {
      MPI_Barrier(MPI_COMM_WORLD);
      usleep(5000);
    }
    raise(SIGKILL);
  }
  begin = now();
  MPI_Finalize();
  if (rank == 0) printf("%f %f\n", init, now() - begin);
  return 0;
}
