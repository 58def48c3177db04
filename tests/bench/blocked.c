/* How long checkpoints hold a program up: from the open to the return of the synchronising call
 * after the close, and all such calls until the next checkpoint begins.
 *
 * usage: blocked COUNT KIB CALLS MICROSECONDS sleep|work|PERCENT keep|tidy [one]
 * Each of COUNT checkpoints is one file of KIB a rank (`one`: by MPI-IO one file, to which each
 * rank adds so much at once), with CALLS synchronising calls after it and so many microseconds
 * before each but the first: asleep, or at work that takes as long on a core of its own; with
 * PERCENT every second rank works less, in turns, and waits so much of the time in its calls.
 * `tidy` deletes a checkpoint when the next is there, outside of what is measured.
 * Prints a line a checkpoint, of the slowest rank: seconds blocked, of the write alone, until the
 * next checkpoint begins, of the first of those calls, of the longest other one; then the
 * processor's seconds of all ranks. Other ranks at work meet before each call, so that it does not
 * wait for one that has written or worked more slowly. Dies in the end, so that nothing is
 * flushed. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 4 << 20, FIGURES = 5 };

static size_t bytes;
static char *data;
static int rank, one_file;
static long turns_a_microsecond;
static volatile double worked = 1;

static void fail(const char *what) {
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double seconds_of(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static double now(void) { return seconds_of(CLOCK_MONOTONIC); }

static double processor(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
         1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void work(long turns) {
  double value = worked;
  for (long i = 0; i < turns; i++) value = value * 0.999999 + 1e-6;
  worked = value;
}

static void calibrate(void) {
  enum { TURNS = 2000000, TRIES = 5 };
  double best = 1;
  for (int i = 0; i < TRIES; i++) {
    double begun = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    work(TURNS);
    double took = seconds_of(CLOCK_THREAD_CPUTIME_ID) - begun;
    if (took < best) best = took;
  }
  turns_a_microsecond = (long)(TURNS / (1e6 * best));
}

static const char *name(int step) {
  static char path[64];
  if (one_file)
    snprintf(path, sizeof path, "ckpt/step_%d/all.dat", step);
  else
    snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", step, rank);
  return path;
}

static void write_together(int step) {
  MPI_File file;
  int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
  if (MPI_File_open(MPI_COMM_WORLD, name(step), mode, MPI_INFO_NULL, &file) ||
      MPI_File_write_at_all(file, (MPI_Offset)bytes * rank, data, (int)bytes, MPI_BYTE,
                            MPI_STATUS_IGNORE) ||
      MPI_File_close(&file))
    fail("MPI-IO");
}

static void write_checkpoint(int step) {
  if (one_file) {
    write_together(step);
    return;
  }
  int fd = open(name(step), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) fail("open");
  for (size_t at = 0; at < bytes; at += PIECE) {
    ssize_t count = bytes - at < PIECE ? bytes - at : PIECE;
    if (write(fd, data + at, count) != count) fail("write");
  }
  if (close(fd) != 0) fail("close");
}

/* Nobody goes on before all are here; no sync point. */
static void meet(void) {
  int here = 0, all;
  MPI_Reduce(&here, &all, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Bcast(&here, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  if (argc < 7) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int count = atoi(argv[1]), calls = atoi(argv[3]), pause = atoi(argv[4]);
  int asleep = strcmp(argv[5], "sleep") == 0, waits = atoi(argv[5]);
  int meets = strcmp(argv[5], "work") == 0, tidy = strcmp(argv[6], "tidy") == 0;
  one_file = argc > 7;
  bytes = (size_t)atol(argv[2]) << 10;
  data = malloc(bytes);
  for (size_t i = 0; i < bytes; i++) data[i] = (char)(i * 31 + (size_t)rank);
  calibrate();
  mkdir("ckpt", 0777);
  for (int step = 1; step <= count; step++) {
    char directory[64];
    snprintf(directory, sizeof directory, "ckpt/step_%d", step);
    mkdir(directory, 0777);
    MPI_Bcast(&step, 1, MPI_INT, 0, MPI_COMM_WORLD); /* together, and no sync point */
    double own[FIGURES] = {0}, all[FIGURES], used = processor(), begun = now();
    write_checkpoint(step);
    own[1] = now() - begun;
    if (meets) meet();
    double called = now();
    MPI_Barrier(MPI_COMM_WORLD);
    own[3] = now() - called;
    own[0] = now() - begun;
    for (int call = 1; call < calls; call++) {
      if (asleep) {
        usleep(pause);
      } else {
        int less = (call + rank) % 2 ? 0 : pause / 100 * 2 * waits;
        work((pause - less) * turns_a_microsecond);
        if (meets) meet();
      }
      called = now();
      MPI_Barrier(MPI_COMM_WORLD);
      double took = now() - called;
      own[0] += took;
      if (took > own[4]) own[4] = took;
    }
    own[2] = now() - begun;
    used = processor() - used;
    double used_by_all;
    MPI_Reduce(own, all, FIGURES, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&used, &used_by_all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      for (int i = 0; i < FIGURES; i++) printf("%.6f ", all[i]);
      printf("%.6f\n", used_by_all);
      fflush(stdout);
    }
    if (tidy && step > 1 && (!one_file || rank == 0)) unlink(name(step - 1));
  }
  meet();
  raise(SIGKILL);
  return 0;
}
