/* Checkpoints beside a large log of each rank, to which a thread of it writes a numbered line after
 * the other. Tells whether it came to the prefix while it was open, and whether it is whole at the
 * end. argv[1] steps, argv[2] every. */
#include "sim.h"
#include <pthread.h>

#define BLOCK (1 << 20)
#define BLOCKS 64

static volatile int done;
static int log_fd;
static long written;

static void put(const char *bytes, size_t count) {
  if (write(log_fd, bytes, count) != (ssize_t)count) sim_fail("cannot write", "the log");
}

static void *write_lines(void *unused) {
  char line[32];
  while (!done) {
    put(line, snprintf(line, sizeof line, "%ld\n", written));
    written++;
  }
  return unused;
}

static const char *check(const char *path) {
  FILE *file = fopen(path, "r");
  long number, count = 0;
  if (!file || fseek(file, (long)BLOCK * BLOCKS, SEEK_SET) != 0) sim_fail("cannot read", path);
  while (fscanf(file, "%ld", &number) == 1 && number == count) count++;
  fclose(file);
  return count == written ? "whole" : "torn";
}

int main(int argc, char **argv) {
  static char block[BLOCK];
  int steps = atoi(argv[1]), every = atoi(argv[2]);
  (void)argc;
  char path[64];
  struct stat before, after;
  pthread_t writer;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  mkdir("ckpt", 0777);
  snprintf(path, sizeof path, "ckpt/run_%d.log", sim.rank);
  log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  for (int i = 0; i < BLOCKS; i++) put(block, BLOCK);
  fstat(log_fd, &before);
  pthread_create(&writer, NULL, write_lines, NULL);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) sim_checkpoint(&sim);
    usleep(2000);
  }
  done = 1;
  pthread_join(writer, NULL);
  fstat(log_fd, &after);
  printf("%s\n", before.st_dev == after.st_dev ? "stayed" : "moved");
  if (close(log_fd) != 0) sim_fail("cannot close", path);
  printf("%s\n", check(path));
  MPI_Finalize();
  return 0;
}
