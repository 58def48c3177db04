/* Threads change one file in place, each in blocks of its own: through a descriptor that all have,
 * through one of their own, by a stream, by a mapping. One makes files beside it meanwhile, renames
 * and removes them. Each result is checked.
 * argv[1] checkpoints, argv[2] KiB a file, argv[3] "anew": a name a checkpoint. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "sim.h"

enum { THREADS = 6, BLOCK = 4096 };

static char path[64], folder[48];
static int shared, step;
static size_t size;
static pthread_barrier_t together;

#define CHECK(what) do { if (!(what)) sim_fail(#what, path); } while (0)

static void fill(char *data, size_t at) {
  for (size_t i = 0; i < BLOCK; i += 16) {
    char text[17];
    snprintf(text, sizeof text, "%5d%10zu\n", step, at + i);
    memcpy(data + i, text, 16);
  }
}

/* Files that only this thread knows. */
static void beside(size_t number) {
  char name[96], other[96], data[BLOCK];
  fill(data, number);
  for (int i = 0; i < 8; i++) {
    snprintf(name, sizeof name, "%s/side_%zu_%d.dat", folder, number, i);
    snprintf(other, sizeof other, "%s/side_%zu_%d.old", folder, number, i);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && write(fd, data, BLOCK) == BLOCK && close(fd) == 0);
    if (i % 3 == 1) CHECK(rename(name, other) == 0);
    if (i % 3 == 2) CHECK(unlink(name) == 0);
  }
}

static void *writer(void *argument) {
  size_t number = (size_t)argument;
  char data[BLOCK], *map = NULL;
  int fd = number == 0 || number == 1 ? shared : open(path, O_RDWR);
  FILE *file = number == 3 ? fdopen(fd, "r+") : NULL;
  CHECK(fd >= 0 && (number != 3 || file));
  if (number == 4) {
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
  }
  pthread_barrier_wait(&together);
  if (number == 5) beside(number);
  for (size_t at = number * BLOCK; at < size; at += THREADS * BLOCK) {
    fill(data, at);
    if (map)
      memcpy(map + at, data, BLOCK);
    else if (file)
      CHECK(!fseeko(file, (off_t)at, SEEK_SET) && fwrite(data, 1, BLOCK, file) == BLOCK);
    else
      CHECK(pwrite(fd, data, BLOCK, (off_t)at) == BLOCK);
  }
  if (number == 1) CHECK(fsync(fd) == 0);
  if (map) CHECK(munmap(map, size) == 0);
  if (file) CHECK(fclose(file) == 0);
  else if (fd != shared) CHECK(close(fd) == 0);
  return NULL;
}

int main(int argc, char **argv) {
  int granted, rank, checkpoints = argc > 1 ? atoi(argv[1]) : 2;
  int anew = argc > 3 && !strcmp(argv[3], "anew");
  size = (size_t)(argc > 2 ? atoi(argv[2]) : 96) << 10;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &granted);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  pthread_barrier_init(&together, NULL, THREADS);
  for (step = 1; step <= checkpoints; step++) {
    pthread_t threads[THREADS];
    snprintf(folder, sizeof folder, "ckpt/step_%d", anew ? step : 1);
    if (rank == 0) {
      mkdir("ckpt", 0777);
      mkdir(folder, 0777);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/rank_%d.dat", folder, rank);
    shared = open(path, O_RDWR | O_CREAT, 0666);
    CHECK(shared >= 0 && ftruncate(shared, (off_t)size) == 0);
    for (size_t i = 0; i < THREADS; i++)
      CHECK(pthread_create(&threads[i], NULL, writer, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(close(shared) == 0);
    sim_calm(20, 5000);
  }
  if (rank == 0) printf("%d checkpoints\n", checkpoints);
  MPI_Finalize();
  return 0;
}
