/* Rank 0 spawns processes whose output posix_spawn opens by a file action: the file of a checkpoint
 * right after its close, or when it is complete; a new one; one that rank 0 has open. */
#define _GNU_SOURCE
#include <spawn.h>
#include <sys/wait.h>

#include "sim.h"

extern char **environ;

static void start(posix_spawn_file_actions_t *actions, const char *text) {
  char *arguments[] = {"sh", "-c", "echo $0", (char *)text, NULL};
  pid_t child;
  int status = -1, failed = posix_spawnp(&child, "sh", actions, NULL, arguments, environ);
  if (!failed && waitpid(child, &status, 0) != child) abort();
  printf("%s: %s, status %d\n", text, failed ? strerror(failed) : "ok", status);
}

/* `times` processes by one list of actions. */
static void spawn(const char *path, int flags, const char *text, int times) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, path, O_WRONLY | flags, 0644);
  while (times-- > 0) start(&actions, text);
  posix_spawn_file_actions_destroy(&actions);
}

static void show(const char *path) {
  char bytes[100000];
  uint64_t sum = 0;
  int fd = open(path, O_RDONLY);
  ssize_t size = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
  for (ssize_t i = 0; i < size; i++) sum = sum * 31 + (unsigned char)bytes[i];
  if (fd >= 0) close(fd);
  printf("%s: %zd bytes, sum %llx\n", path, size, (unsigned long long)sum);
}

static void act(const char *own, const char *added, int step) {
  if (step % 4 == 0) spawn(own, O_CREAT | O_TRUNC, "instead", 1);
  if (step % 4 == 1) spawn(own, O_APPEND, "behind it", 2);
  if (step % 4 == 2) spawn(own, O_CREAT | O_EXCL, "there is one", 1);
  if (step % 4 == 3) {
    int fd = open(own, O_WRONLY | O_APPEND);
    if (fd < 0 || write(fd, "first", 5) != 5) sim_fail("cannot write", own);
    spawn(own, O_APPEND, "then the child", 1);
    if (write(fd, "last", 4) != 4 || close(fd) != 0) sim_fail("cannot write", own);
  }
  spawn(added, O_CREAT | O_EXCL, "new", 1);
  show(own);
  show(added);
}

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int i = 0; i < 8; i++) {
    char own[256], added[256];
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    sim_path(own, sizeof own, &sim, sim.step);
    snprintf(added, sizeof added, "ckpt/step_%d/rank_%d.dat", sim.step, 100 + sim.rank);
    if (i >= 4) sim_calm(100, 2000);
    if (sim.rank == 0) act(own, added, i);
    sim_calm(100, 1000);
    if (sim.rank == 0) show(own);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
