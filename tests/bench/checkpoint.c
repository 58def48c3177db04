/* A checkpoint of one file a rank, as its pattern has it, against the same write to a plain file;
 * the seal after it; a copy in memory; and an exchange with the neighbours by MPI. Alternately,
 * round by round; what the slowest rank took counts.
 *
 * usage: checkpoint ROUNDS MIB DIRECTORY-OF-PLAIN-FILES; prints a line a round: seconds of the
 * checkpoint's write, of the plain one, of the seal, of the copy, of the exchange. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 4 << 20, MESSAGE = 1 << 20, BARRIERS = 40 };

static size_t bytes;
static char *data, *copy;

static double slowest(double own) {
  double all;
  MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD); /* no sync point */
  return all;
}

static double write_file(const char *path) {
  double begun = MPI_Wtime();
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) { perror(path); MPI_Abort(MPI_COMM_WORLD, 1); }
  for (size_t at = 0; at < bytes; at += PIECE)
    if (write(fd, data + at, PIECE) != PIECE) { perror(path); MPI_Abort(MPI_COMM_WORLD, 1); }
  if (close(fd) != 0) { perror(path); MPI_Abort(MPI_COMM_WORLD, 1); }
  return MPI_Wtime() - begun;
}

static double write_plain(const char *directory, int rank) {
  char path[4096];
  snprintf(path, sizeof path, "%s/plain_%d", directory, rank);
  double own = write_file(path);
  unlink(path);
  return slowest(own);
}

static double write_checkpoint(int round, int rank) {
  char path[4096];
  snprintf(path, sizeof path, "ckpt/step_%d", round);
  mkdir("ckpt", 0777);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", round, rank);
  return slowest(write_file(path));
}

/* The seal happens in one of the synchronising calls after the close. */
static double seal(void) {
  double own = 0;
  for (int i = 0; i < BARRIERS; i++) {
    double begun = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    if (MPI_Wtime() - begun > own) own = MPI_Wtime() - begun;
    usleep(2000);
  }
  return slowest(own);
}

static double copy_in_memory(void) {
  double begun = MPI_Wtime();
  memcpy(copy, data, bytes);
  __asm__ volatile("" : : "r"(copy) : "memory");
  return slowest(MPI_Wtime() - begun);
}

/* What any copy to another rank costs at least. */
static double exchange(int rank) {
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double begun = MPI_Wtime();
  for (size_t at = 0; at < bytes; at += MESSAGE)
    MPI_Sendrecv(data + at, MESSAGE, MPI_BYTE, (rank + 1) % size, 0, copy + at, MESSAGE, MPI_BYTE,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return slowest(MPI_Wtime() - begun);
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int rounds = atoi(argv[1]);
  bytes = (size_t)atoi(argv[2]) << 20;
  data = malloc(bytes);
  copy = malloc(bytes);
  for (size_t i = 0; i < bytes; i++) data[i] = (char)(i * 31 + (size_t)rank);
  memset(copy, 1, bytes);
  for (int round = 0; round < rounds; round++) {
    double cached = 0, plain = 0;
    for (int half = 0; half < 2; half++) {
      MPI_Bcast(&round, 1, MPI_INT, 0, MPI_COMM_WORLD); /* together, and no sync point */
      if (half == round % 2) cached = write_checkpoint(round, rank);
      else plain = write_plain(argv[3], rank);
    }
    double sealed = seal(), copied = copy_in_memory(), exchanged = exchange(rank);
    if (rank == 0) {
      printf("%.6f %.6f %.6f %.6f %.6f\n", cached, plain, sealed, copied, exchanged);
      fflush(stdout);
    }
  }
  MPI_Finalize();
  return 0;
}
