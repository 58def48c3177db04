/* Checkpoints that are complete are opened for update: only read, changed through a hook, changed
 * by a bare system call, through memory. Prints where the open file lies at each stage. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "sim.h"

static const char *where(int fd) {
  static char text[4096];
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  /* readlink(2) tells the program's own name for it. */
  ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, name, text, sizeof text - 1);
  text[n < 0 ? 0 : n] = 0;
  if (strstr(text, "/scr.dataset.")) return "sealed";
  return strstr(text, "/scr.shadow/") ? "copy" : "prefix";
}

static void settle(void) {
  sim_calm(20, 5000);
}

static int update(const sim_t *sim, int step) {
  char path[256];
  sim_path(path, sizeof path, sim, step);
  int fd = open(path, O_RDWR | O_CREAT, 0666);
  if (fd < 0) sim_fail("cannot open", path);
  return fd;
}

int main(int argc, char **argv) {
  char byte = 0;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int i = 0; i < 3; i++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    settle();
  }
  int fd = update(&sim, 1);
  if (read(fd, &byte, 1) != 1) sim_fail("cannot read", "1");
  if (sim.rank == 0) printf("read %s\n", where(fd));
  close(fd);
  settle();
  fd = update(&sim, 2);
  if (sim.rank == 0) printf("before %s\n", where(fd));
  if (pwrite(fd, "x", 1, 100) != 1) sim_fail("cannot write", "2");
  if (sim.rank == 0) printf("after %s\n", where(fd));
  close(fd);
  fd = update(&sim, 3);
  if (syscall(SYS_pwrite64, fd, "y", 1L, 100L) != 1) sim_fail("cannot write", "3");
  close(fd);
  settle();
  fd = update(&sim, 1);
  char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) sim_fail("cannot map", "1");
  close(fd);
  map[200] ^= 1;
  if (munmap(map, 4096) != 0) sim_fail("cannot unmap", "1");
  settle();
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
