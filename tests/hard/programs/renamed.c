/* Each file is written under a temporary name and gets its own when it is complete. argv[1] is how,
 * argv[2] steps, argv[3] every, argv[4] a step at which rank 0 makes the file argv[5] and all wait
 * until it is removed. */
#include "sim.h"

static int count;

/* The temporary name of `last`, made and opened. */
static int make(const char *how, const sim_t *sim, const char *last, char *path, size_t bytes) {
  const char *name = strrchr(last, '/') + 1;
  int dir = (int)(name - last), flags = O_WRONLY | O_CREAT | O_EXCL;
  char host[64] = "";
  if (strcmp(how, "mkstemp") == 0) {
    snprintf(path, bytes, "%.*s.%s.XXXXXX", dir, last, name);
    return mkstemp(path);
  }
  if (strcmp(how, "unlike") == 0) {
    snprintf(path, bytes, "%.*stmp.XXXXXX", dir, last);
    return mkstemp(path);
  }
  if (strcmp(how, "elsewhere") == 0) {
    mkdir("tmp", 0777);
    snprintf(path, bytes, "tmp/%d-%d", (int)getpid(), ++count);
    return open(path, flags, 0666);
  }
  gethostname(host, sizeof host - 1);
  snprintf(path, bytes, "%s.%s.%d.%d.partial", last, host, (int)getpid(), ++count * sim->step);
  return open(path, flags, 0666);
}

static void checkpoint(const sim_t *sim, const char *how) {
  char last[256], path[512];
  int early = strcmp(how, "open") == 0;
  sim_mkdir(sim, sim->step);
  sim_path(last, sizeof last, sim, sim->step);
  int fd = make(how, sim, last, path, sizeof path);
  if (fd < 0) sim_fail("cannot make", path);
  if (write(fd, sim, sizeof *sim) != (ssize_t)sizeof *sim) sim_fail("cannot write", path);
  if (fchmod(fd, 0644) != 0 || fsync(fd) != 0) sim_fail("cannot sync", path);
  if (early && rename(path, last) != 0) sim_fail("cannot rename", path);
  if (close(fd) != 0) sim_fail("cannot close", path);
  if (!early && rename(path, last) != 0) sim_fail("cannot rename", path);
  if (access(path, F_OK) == 0 || access(last, R_OK) != 0) sim_fail("lost", last);
}

int main(int argc, char **argv) {
  const char *how = argv[1];
  int steps = atoi(argv[2]), every = atoi(argv[3]), pause = argc > 4 ? atoi(argv[4]) : 0;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim_restart(&sim, steps, every, MPI_COMM_WORLD);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) {
      checkpoint(&sim, how);
      sim_calm(100, 1000);
    }
    if (sim.step == pause) {
      struct stat st;
      int fd = sim.rank == 0 ? open(argv[5], O_CREAT | O_WRONLY, 0666) : -1;
      if (fd >= 0) close(fd);
      MPI_Barrier(MPI_COMM_WORLD);
      while (stat(argv[5], &st) == 0) usleep(10000);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
