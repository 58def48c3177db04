/* What a hook costs a file that is not ours. Opens and closes each file through the dynamic
 * linker's `open` and `close` (the shim's, if it is loaded) and, alternately, through libc's own.
 *
 * usage: open_close mpi|plain FILE ...; prints a line a file: ns through the linker, ns of libc.
 * FILE:COUNT stands for files FILE0, FILE1, ..., each opened once. */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 1001, CALLS = 100 };

typedef int (*open_fn)(const char *, int, ...);
typedef int (*close_fn)(int);

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double round_ns(open_fn opens, close_fn closes, const char *path) {
  double begun = now_ns();
  for (int i = 0; i < CALLS; i++) {
    int fd = opens(path, O_RDONLY);
    if (fd < 0) { perror(path); exit(1); }
    closes(fd);
  }
  return (now_ns() - begun) / CALLS;
}

/* Every second file through the linker, the others by libc. */
static void once(open_fn opens, close_fn closes, const char *stem, int count, double *times) {
  char path[4096];
  times[0] = times[1] = 0;
  for (int i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s%d", stem, i);
    open_fn o = i % 2 ? opens : open;
    close_fn c = i % 2 ? closes : close;
    double begun = now_ns();
    int fd = o(path, O_RDONLY);
    if (fd < 0) { perror(path); exit(1); }
    c(fd);
    times[i % 2] += now_ns() - begun;
  }
  printf("%.1f %.1f\n", times[0] / (count / 2), times[1] / (count / 2));
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values) {
  qsort(values, ROUNDS, sizeof *values, ascending);
  return values[ROUNDS / 2];
}

int main(int argc, char **argv) {
  static double linked[ROUNDS], direct[ROUNDS];
  int mpi = argc > 1 && !strcmp(argv[1], "mpi");
  void *libc = dlopen("libc.so.6", RTLD_NOW);
  open_fn real_open = libc ? (open_fn)dlsym(libc, "open") : NULL;
  close_fn real_close = libc ? (close_fn)dlsym(libc, "close") : NULL;
  if (!real_open || !real_close) { fprintf(stderr, "libc.so.6: %s\n", dlerror()); return 1; }
  if (mpi) MPI_Init(&argc, &argv);
  for (int i = 2; i < argc; i++) {
    char *colon = strchr(argv[i], ':');
    if (colon) {
      double times[2];
      *colon = 0;
      once(real_open, real_close, argv[i], atoi(colon + 1), times);
      continue;
    }
    for (int round = 0; round < ROUNDS; round++) {
      linked[round] = round_ns(open, close, argv[i]);
      direct[round] = round_ns(real_open, real_close, argv[i]);
    }
    printf("%.1f %.1f\n", median(linked), median(direct));
  }
  if (mpi) MPI_Finalize();
  return 0;
}
