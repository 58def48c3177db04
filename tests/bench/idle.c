/* What the shim costs a program that writes nothing just now.
 *
 * usage: idle ROUNDS CALLS
 * Writes one small checkpoint, which is sealed, and prints KiB in memory of the largest rank after
 * MPI_Init and then, and how many of these no other process can share; and of MPI_Allreduce,
 * MPI_Barrier: the median nanoseconds of a call, of one straight to the MPI library, and the mean
 * of both, by alternating rounds of so many calls. */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SETTLE_CALLS = 60 };

static int rank, flag, all;

static double in_memory(const char *kind) {
  char line[256];
  long kib = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (strncmp(line, kind, strlen(kind)) == 0) kib = atol(line + strlen(kind));
  if (status) fclose(status);
  return (double)kib;
}

static double largest(double own) {
  double most = 0;
  MPI_Reduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD); /* no sync point */
  return most;
}

static void write_checkpoint(void) {
  char path[64];
  mkdir("ckpt", 0777);
  mkdir("ckpt/step_1", 0777);
  snprintf(path, sizeof path, "ckpt/step_1/rank_%d.dat", rank);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || write(fd, path, sizeof path) != sizeof path || close(fd) != 0) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (int i = 0; i < SETTLE_CALLS; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(5000);
  }
}

/* PMPI_ names are the shim's, too, so the MPI library itself is asked for its own. */
static int (*library_allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
static int (*library_barrier)(MPI_Comm);

static void find_library(void) {
  void *mpi = dlopen("libmpi.so.40", RTLD_NOW | RTLD_NOLOAD);
  if (!mpi) mpi = dlopen("libmpich.so.12", RTLD_NOW | RTLD_NOLOAD);
  if (!mpi) {
    fprintf(stderr, "which MPI library is it?\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  *(void **)&library_allreduce = dlsym(mpi, "PMPI_Allreduce");
  *(void **)&library_barrier = dlsym(mpi, "PMPI_Barrier");
}

static void allreduce(void) { MPI_Allreduce(&flag, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD); }
static void its_allreduce(void) {
  library_allreduce(&flag, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
}
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void its_barrier(void) { library_barrier(MPI_COMM_WORLD); }

static double nanoseconds(void (*call)(void), int calls) {
  double begun = MPI_Wtime();
  for (int i = 0; i < calls; i++) call();
  return 1e9 * (MPI_Wtime() - begun) / calls;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void compare(void (*hooked)(void), void (*direct)(void), int rounds, int calls) {
  double *times[2], sums[2] = {0, 0};
  for (int way = 0; way < 2; way++) times[way] = malloc(rounds * sizeof *times[way]);
  for (int round = 0; round < 2 * rounds; round++) {
    int way = (round + round / 2) % 2;
    double took = nanoseconds(way ? direct : hooked, calls);
    times[way][round / 2] = took;
    sums[way] += took;
  }
  for (int way = 0; way < 2; way++) qsort(times[way], rounds, sizeof *times[way], ascending);
  if (rank == 0)
    printf("%.1f %.1f %.1f %.1f\n", times[0][rounds / 2], times[1][rounds / 2], sums[0] / rounds,
           sums[1] / rounds);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  find_library();
  int rounds = atoi(argv[1]), calls = atoi(argv[2]);
  double begun = largest(in_memory("VmRSS:"));
  write_checkpoint();
  double sealed = largest(in_memory("VmRSS:")), own = largest(in_memory("RssAnon:"));
  if (rank == 0) printf("%.0f %.0f %.0f\n", begun, sealed, own);
  compare(allreduce, its_allreduce, rounds, calls);
  compare(barrier, its_barrier, rounds, calls);
  fflush(stdout);
  flag = 0;
  MPI_Bcast(&flag, 1, MPI_INT, 0, MPI_COMM_WORLD);
  raise(SIGKILL);
  return 0;
}
