/* Threads write the blocks of one file, each in its own way: through one descriptor, through a
 * second one of its own, and by a stream. Each result is checked.
 * argv[1] checkpoints, argv[2] KiB a file, argv[3] "unseen": one more thread writes what is there
 * already by the bare system call, and a byte to "ticks" after each. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>

#include "sim.h"

enum { THREADS = 4, BLOCK = 16384 };

static char path[64];
static int shared;
static size_t size;

#define CHECK(what) do { if (!(what)) sim_fail(#what, path); } while (0)

static void fill(char *data, size_t at) {
  for (size_t i = 0; i < BLOCK; i += 16)
    snprintf(data + i, 17, "%15zu\n", at + i);
}

static void *writer(void *argument) {
  size_t number = (size_t)argument;
  char data[BLOCK + 1];
  int fd = number == 2 ? open(path, O_WRONLY) : shared;
  FILE *file = number == 3 ? fopen(path, "r+") : NULL;
  CHECK(fd >= 0 && (number != 3 || file));
  for (size_t at = number * BLOCK; at < size; at += THREADS * BLOCK) {
    fill(data, at);
    if (file)
      CHECK(!fseeko(file, (off_t)at, SEEK_SET) && fwrite(data, 1, BLOCK, file) == BLOCK);
    else
      CHECK(pwrite(fd, data, BLOCK, (off_t)at) == BLOCK);
  }
  if (file) CHECK(fclose(file) == 0);
  if (number == 2) CHECK(close(fd) == 0);
  return NULL;
}

static volatile int done;

static void *unseen_writer(void *unused) {
  char data[BLOCK + 1];
  int ticks = open("ticks", O_WRONLY | O_CREAT | O_APPEND, 0666);
  fill(data, 0);
  CHECK(ticks >= 0);
  for (; !done; usleep(1000))
    CHECK(syscall(SYS_pwrite64, shared, data, 16, 0) == 16 && write(ticks, ".", 1) == 1);
  CHECK(close(ticks) == 0);
  return unused;
}

int main(int argc, char **argv) {
  int granted, rank, checkpoints = argc > 1 ? atoi(argv[1]) : 2;
  size = (size_t)(argc > 2 ? atoi(argv[2]) : 1024) << 10;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &granted);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int step = 1; step <= checkpoints; step++) {
    pthread_t threads[THREADS], unseen;
    int is_unseen = argc > 3 && step == 1;
    if (rank == 0) {
      mkdir("ckpt", 0777);
      snprintf(path, sizeof path, "ckpt/step_%d", step);
      mkdir(path, 0777);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", step, rank);
    shared = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(shared >= 0 && pwrite(shared, "", 1, 0) == 1);
    if (is_unseen) CHECK(pthread_create(&unseen, NULL, unseen_writer, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
      CHECK(pthread_create(&threads[i], NULL, writer, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    done = 1;
    if (is_unseen) CHECK(pthread_join(unseen, NULL) == 0);
    CHECK(close(shared) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank == 0) printf("%d checkpoints\n", checkpoints);
  MPI_Finalize();
  return 0;
}
