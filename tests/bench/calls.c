/* Checkpoints of one file a rank by the calls of SCR, and the same by the shim, which knows the
 * file by its pattern, by turns in one run; what the slowest rank took counts.
 *
 * usage: calls KIB COUNT  prints a line a turn: seconds of the shim's checkpoint with the
 *                         synchronising call in which it is sealed, and of the calls' from the
 *                         start call to the end of the complete call
 *        calls idle COUNT prints the nanoseconds of an MPI_Allreduce of the program's and of
 *                         SCR_Need_checkpoint */
#include <fcntl.h>
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 4 << 20, WARM_UP = 4, BARRIERS = 5 };

static size_t bytes;
static char *data;
static int rank;

static void fail(const char *what) {
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double slowest(double own) {
  double all;
  MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD); /* no sync point */
  return all;
}

static void write_file(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) fail(path);
  for (size_t at = 0; at < bytes; at += PIECE) {
    ssize_t count = bytes - at < PIECE ? bytes - at : PIECE;
    if (write(fd, data + at, count) != count) fail("write");
  }
  if (close(fd) != 0) fail("close");
}

static double by_shim(int step) {
  char path[64];
  double begun = MPI_Wtime(), later = 0;
  snprintf(path, sizeof path, "ckpt/step_%d", step);
  mkdir("ckpt", 0777);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", step, rank);
  write_file(path);
  MPI_Barrier(MPI_COMM_WORLD);
  double took = MPI_Wtime() - begun;
  /* A seal that has not come to it yet is a part of the checkpoint. */
  for (int i = 0; i < BARRIERS; i++) {
    usleep(2000);
    begun = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    if (MPI_Wtime() - begun > later) later = MPI_Wtime() - begun;
  }
  return slowest(later > took ? took + later : took);
}

static double by_calls(int step) {
  char name[64], path[SCR_MAX_FILENAME];
  double begun = MPI_Wtime();
  snprintf(name, sizeof name, "called/step_%d/rank_%d.dat", step, rank);
  if (SCR_Start_checkpoint() != SCR_SUCCESS || SCR_Route_file(name, path) != SCR_SUCCESS)
    MPI_Abort(MPI_COMM_WORLD, 1);
  write_file(path);
  if (SCR_Complete_checkpoint(1) != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  return slowest(MPI_Wtime() - begun);
}

static void idle(int count) {
  int flag = rank, all;
  double allreduce = 0, need = 0;
  for (int i = 0; i < count; i++) {
    double begun = MPI_Wtime();
    PMPI_Allreduce(&flag, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    double between = MPI_Wtime();
    if (SCR_Need_checkpoint(&flag) != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    allreduce += between - begun;
    need += MPI_Wtime() - between;
  }
  allreduce = slowest(allreduce);
  need = slowest(need);
  if (rank == 0) printf("%.0f %.0f\n", 1e9 * allreduce / count, 1e9 * need / count);
}

int main(int argc, char **argv) {
  (void)argc;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (SCR_Init() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  int count = atoi(argv[2]);
  if (strcmp(argv[1], "idle") == 0) {
    idle(count);
  } else {
    bytes = (size_t)atoi(argv[1]) << 10;
    data = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) data[i] = (char)(i * 31 + (size_t)rank);
    for (int step = 1; step <= WARM_UP + count; step++) {
      double took[2];
      for (int half = 0; half < 2; half++) {
        MPI_Bcast(&step, 1, MPI_INT, 0, MPI_COMM_WORLD); /* together, and no sync point */
        int calls = half != step % 2;
        took[calls] = calls ? by_calls(step) : by_shim(step);
      }
      if (rank == 0 && step > WARM_UP) printf("%.6f %.6f\n", took[0], took[1]);
    }
  }
  SCR_Finalize();
  MPI_Finalize();
  return 0;
}
