/* Checkpoints beside a large log of each rank that a thread of it writes all the time. Tells
 * whether it came to the prefix while it was open, and whether it is whole at the end. argv[1]
 * steps, argv[2] every, argv[3] how the thread writes:
 *   lines    a numbered line after the other, by write
 *   stream   the same by stdio, which writes by itself whenever its buffer is full
 *   piped    lines that another thread gives it from time to time: it is in splice till then
 *   counted  small lines by stdio, each after its number at the begin of the file, now and then
 *   unseen   lines now and then, by a bare system call; `ticks` has a byte for each */
#define _GNU_SOURCE
#include "sim.h"
#include <pthread.h>
#include <sys/syscall.h>

#define BLOCK (1 << 20)
#define BLOCKS 64

static volatile int done;
static int log_fd, pipe_fds[2];
static FILE *stream;
static const char *manner;
static long written;
static struct stat before;

static int has_moved(void) {
  struct stat now;
  fstat(log_fd, &now);
  return now.st_dev != before.st_dev;
}

static void put(const char *bytes, size_t count) {
  if (write(log_fd, bytes, count) != (ssize_t)count) sim_fail("cannot write", "the log");
}

static void write_line(void) {
  char line[32];
  int length = snprintf(line, sizeof line, "%ld\n", written);
  if (!strcmp(manner, "unseen")) {
    usleep(100000);
    if (syscall(SYS_write, log_fd, line, length) != length) sim_fail("cannot write", "the log");
    // The engine may be at work: a hook would wait for it.
    int ticks = syscall(SYS_openat, AT_FDCWD, "ticks", O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (syscall(SYS_write, ticks, ".", 1) != 1) sim_fail("cannot write", "ticks");
    syscall(SYS_close, ticks);
  } else if (stream) {
    if (fputs(line, stream) < 0) sim_fail("cannot write", "the log");
  } else {
    put(line, length);
  }
}

static void *feed(void *unused) {
  char line[32];
  for (; !done; written++) {
    int length = snprintf(line, sizeof line, "%ld\n", written);
    if (write(pipe_fds[1], line, length) != length) sim_fail("cannot write", "the pipe");
    usleep(20000);
  }
  close(pipe_fds[1]);
  return unused;
}

static void splice_lines(void) {
  pthread_t feeder;
  if (pipe(pipe_fds) != 0 || pthread_create(&feeder, NULL, feed, NULL) != 0)
    sim_fail("cannot make", "a pipe");
  while (splice(pipe_fds[0], NULL, log_fd, NULL, BLOCK, 0) > 0) continue;
  pthread_join(feeder, NULL);
}

static void write_counted(void) {
  usleep(150000);
  rewind(stream);
  fprintf(stream, "%8ld\n", written);
  fseek(stream, 0, SEEK_END);
  write_line();
  fflush(stream);
}

static void *write_log(void *unused) {
  if (!strcmp(manner, "piped")) splice_lines();
  for (; !done; written++) {
    if (!strcmp(manner, "counted")) write_counted();
    else write_line();
  }
  return unused;
}

static const char *check(const char *path) {
  FILE *file = fopen(path, "r");
  long number, count = 0;
  if (!file) sim_fail("cannot read", path);
  int whole;
  if (strcmp(manner, "counted")) whole = fseek(file, (long)BLOCK * BLOCKS, SEEK_SET) == 0;
  else whole = fscanf(file, "%ld", &number) == 1 && number == written - 1;
  while (fscanf(file, "%ld", &number) == 1 && number == count) count++;
  fclose(file);
  return whole && count == written ? "whole" : "torn";
}

int main(int argc, char **argv) {
  static char block[BLOCK];
  int steps = atoi(argv[1]), every = atoi(argv[2]);
  manner = argv[3];
  char path[64];
  pthread_t writer;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  mkdir("ckpt", 0777);
  snprintf(path, sizeof path, "ckpt/run_%d.log", sim.rank);
  int counted = !strcmp(manner, "counted"), appends = !counted && strcmp(manner, "piped");
  log_fd = open(path, O_RDWR | O_CREAT | (appends ? O_APPEND : 0), 0666);
  for (int i = 0; i < BLOCKS && !counted; i++) put(block, BLOCK);
  if (counted || !strcmp(manner, "stream")) stream = fdopen(log_fd, counted ? "r+" : "a");
  fstat(log_fd, &before);
  pthread_create(&writer, NULL, write_log, NULL);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) sim_checkpoint(&sim);
    usleep(2000);
  }
  int moved = has_moved();
  done = 1;
  pthread_join(writer, NULL);
  printf("%s\n", moved ? "moved" : "stayed");
  if ((stream ? fclose(stream) : close(log_fd)) != 0) sim_fail("cannot close", path);
  printf("%s\n", check(path));
  MPI_Finalize();
  return 0;
}
