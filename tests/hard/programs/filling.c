/* Checkpoints by every way of writing a file, each result checked as strictly as the strictest
 * program does: a short write, a failed flush or a signal ends the run.
 * argv[1] checkpoints, argv[2] KiB a file (half of it from the third on), argv[3]
 * first checkpoint during which rank 0 eats up the store argv[4] in the middle of each file (0:
 * never), argv[5] the only way to be used, or -WAY for all but that (or all). */
#define _GNU_SOURCE
#include <aio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/uio.h>

#include "sim.h"

static const char *store, *path;
static int eats;
static char *data, older[256];
static size_t size;

#define CHECK(what) do { if (!(what)) sim_fail(#what, path); } while (0)

static int rank(void) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/* In the middle of a file: another program takes all the room that is left. */
static void middle(void) {
  if (!eats) return;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == 0) {
    static char block[65536];
    struct statfs found;
    int fd = open(store, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || fstatfs(fd, &found) != 0) sim_fail("cannot eat", store);
    if ((size_t)found.f_blocks * (size_t)found.f_bsize > (size_t)256 << 20) {
      close(fd); /* no small store of a test's own: not to be eaten */
      MPI_Barrier(MPI_COMM_WORLD);
      return;
    }
    if (fallocate(fd, 0, 0, (off_t)(found.f_bavail * (size_t)found.f_bsize)) != 0)
      while (write(fd, block, sizeof block) > 0) {}
    close(fd);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static int create(void) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
  CHECK(fd >= 0);
  return fd;
}

static void by_write(void) {
  int fd = create();
  size_t half = size / 2;
  CHECK(write(fd, data, half) == (ssize_t)half);
  middle();
  CHECK(write(fd, data + half, size - half) == (ssize_t)(size - half) && close(fd) == 0);
}

static void by_pwrite(void) {
  int fd = create();
  size_t half = size / 2;
  CHECK(pwrite(fd, data, half, 0) == (ssize_t)half);
  middle();
  CHECK(pwrite(fd, data + half, size - half, (off_t)half) == (ssize_t)(size - half));
  CHECK(close(fd) == 0);
}

static void by_writev(void) {
  int fd = create();
  size_t third = size / 3;
  struct iovec parts[] = {{data, third}, {data + third, third},
                          {data + 2 * third, size - 2 * third}};
  CHECK(writev(fd, parts, 1) == (ssize_t)third);
  middle();
  CHECK(writev(fd, parts + 1, 2) == (ssize_t)(size - third) && close(fd) == 0);
}

static void by_fwrite(void) {
  FILE *file = fopen(path, "w");
  CHECK(file && fwrite(data, 1, size / 2, file) == size / 2);
  middle();
  CHECK(fwrite(data + size / 2, 1, size - size / 2, file) == size - size / 2);
  CHECK(fclose(file) == 0);
}

/* Small pieces, and a part that is written by the close only. */
static void by_fprintf(void) {
  FILE *file = fopen(path, "w");
  CHECK(file);
  for (size_t at = 0; at < size; at += 32) {
    if (at == size / 64 * 32) middle();
    CHECK(fprintf(file, "%31.31s\n", "0123456789abcdef0123456789abcdef") == 32);
  }
  CHECK(fflush(file) == 0 && fputs("the end\n", file) >= 0 && fclose(file) == 0);
}

static void by_mapping(void) {
  int fd = create();
  CHECK(ftruncate(fd, (off_t)size) == 0);
  char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED && close(fd) == 0);
  middle();
  memcpy(map, data, size);
  CHECK(munmap(map, size) == 0);
}

static void by_aio(void) {
  int fd = create();
  middle();
  struct aiocb block = {.aio_fildes = fd, .aio_buf = data, .aio_nbytes = size};
  const struct aiocb *list[] = {&block};
  CHECK(aio_write(&block) == 0 && aio_suspend(list, 1, NULL) == 0);
  CHECK(aio_return(&block) == (ssize_t)size && close(fd) == 0);
}

static void by_sendfile(void) {
  int fd = create(), from = memfd_create("source", 0);
  CHECK(write(from, data, size) == (ssize_t)size && lseek(from, 0, SEEK_SET) == 0);
  middle();
  for (size_t left = size; left > 0;) {
    ssize_t sent = sendfile(fd, from, NULL, left);
    CHECK(sent > 0);
    left -= (size_t)sent;
  }
  CHECK(close(from) == 0 && close(fd) == 0);
}

/* Written in two parts, the second through another descriptor that appends. */
static void by_appending(void) {
  int fd = create();
  CHECK(write(fd, data, size / 2) == (ssize_t)(size / 2));
  int other = open(path, O_WRONLY | O_APPEND);
  CHECK(other >= 0);
  middle();
  CHECK(write(other, data + size / 2, size - size / 2) == (ssize_t)(size - size / 2));
  CHECK(close(other) == 0 && pwrite(fd, "first", 5, 0) == 5 && close(fd) == 0);
}

/* The file of the checkpoint before is opened for update: read, and then changed through two
 * descriptors, the second of which was there before the first change. */
static void by_update(void) {
  int fd = create();
  CHECK(write(fd, data, size) == (ssize_t)size && close(fd) == 0);
  if (!*older || !eats) return;
  char byte = 0;
  int other = open(older, O_RDWR);
  CHECK((fd = open(older, O_RDWR)) >= 0 && other >= 0 && pread(other, &byte, 1, 1) == 1);
  middle();
  CHECK(pwrite(fd, &(char){(char)~byte}, 1, 1) == 1);
  char seen = byte;
  CHECK(pread(other, &seen, 1, 1) == 1 && seen == (char)~byte);
  CHECK(pwrite(other, data, size, (off_t)size) == (ssize_t)size);
  CHECK(close(fd) == 0 && close(other) == 0);
}

static const struct {
  const char *name;
  void (*run)(void);
} ways[] = {{"write", by_write},       {"pwrite", by_pwrite},     {"writev", by_writev},
            {"fwrite", by_fwrite},     {"fprintf", by_fprintf},   {"mapping", by_mapping},
            {"aio", by_aio},           {"sendfile", by_sendfile}, {"appending", by_appending},
            {"update", by_update}};

int main(int argc, char **argv) {
  int checkpoints = atoi(argv[1]), first_eaten = atoi(argv[3]);
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  size = (size_t)atoi(argv[2]) << 10;
  store = argv[4];
  data = malloc(size);
  for (int number = 1; number <= checkpoints; number++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_mkdir(&sim, sim.step);
    if (number == 3) size /= 2;
    eats = first_eaten > 0 && number >= first_eaten;
    for (size_t i = 0; i < size; i++) data[i] = (char)(i * 31 + i / 4096 + (size_t)sim.rank);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
      char name[256];
      const char *which = argc > 5 ? argv[5] : "-";
      int except = *which == '-';
      if ((strcmp(which + except, ways[way].name) == 0) == except) continue;
      snprintf(name, sizeof name, "ckpt/step_%d/rank_%d.%s", sim.step, sim.rank, ways[way].name);
      path = name;
      if (number > 1)
        snprintf(older, sizeof older, "ckpt/step_%d/rank_%d.%s", sim.step - 1, sim.rank,
                 ways[way].name);
      ways[way].run();
      struct stat found;
      CHECK(stat(path, &found) == 0 && (size_t)found.st_size >= size);
      CHECK((size_t)found.st_blocks * 512 < size + 65536); /* no more room than it needs */
      MPI_Barrier(MPI_COMM_WORLD);
      if (eats && sim.rank == 0) unlink(store);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    sim_calm(100, 1000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  free(data);
  MPI_Finalize();
  return 0;
}
