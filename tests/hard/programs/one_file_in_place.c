/* Rank 0 writes a checkpoint file anew several times, so that it is known when one is complete.
 * Then all ranks change it in place, a part each. argv[1]: at-once, or baton: one after another. */
#include "sim.h"
#include <sys/syscall.h>

static const char *const name = "ckpt/state";

/* Where the file lies, if it is in the cache: readlink(2) would tell the program's own name. */
static int is_complete(void) {
  char link[64], text[4096];
  int fd = open(name, O_RDONLY);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t count = syscall(SYS_readlinkat, AT_FDCWD, link, text, sizeof text - 1);
  text[count < 0 ? 0 : count] = 0;
  close(fd);
  return strstr(text, "/scr.dataset.") != NULL;
}

static void write_part(int fd, int part, const char *bytes) {
  if (pwrite(fd, bytes, 8, 8 * part) != 8) sim_fail("cannot write", name);
}

int main(int argc, char **argv) {
  sim_t sim;
  int complete = 0;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  mkdir("ckpt", 0777);
  for (int round = 0; round < 4; round++) {
    if (sim.rank == 0) {
      int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
      for (int part = 0; part < sim.size; part++) write_part(fd, part, "original");
      close(fd);
    }
    complete = 0;
    for (int tries = 0; !complete && tries < 1000; tries++) {
      sim_calm(5, 5000);
      if (sim.rank == 0) complete = is_complete();
      MPI_Bcast(&complete, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
  }
  int baton = strcmp(argv[1], "baton") == 0;
  if (baton && sim.rank > 0)
    MPI_Recv(NULL, 0, MPI_INT, sim.rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int fd = open(name, O_WRONLY);
  if (!baton) MPI_Barrier(MPI_COMM_WORLD);
  write_part(fd, sim.rank, "changed.");
  if (!baton) MPI_Barrier(MPI_COMM_WORLD);
  if (close(fd) != 0) sim_fail("cannot close", name);
  if (baton && sim.rank + 1 < sim.size)
    MPI_Send(NULL, 0, MPI_INT, sim.rank + 1, 0, MPI_COMM_WORLD);
  sim_calm(20, 5000);
  if (sim.rank == 0) printf("complete %d\n", complete);
  MPI_Finalize();
  return 0;
}
