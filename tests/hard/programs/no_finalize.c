/* Ends with the last checkpoint just closed, and one file still open if no handler of exit(3) would
 * close it. Argument 1, the end: exit, _exit, _Exit, quick_exit, or signal (a handler calls _exit);
 * argument 2: `finalized`, if MPI_Finalize comes before. Children end by _exit, too, and that means
 * nothing. */
#include <signal.h>
#include <sys/wait.h>

#include "sim.h"

static void leave(int number) {
  (void)number;
  _exit(0);
}

static void leave_open(sim_t *sim) {
  char path[256];
  sim->step = 99;
  sim_mkdir(sim, sim->step);
  sim_path(path, sizeof path, sim, sim->step);
  int fd = open(path, O_WRONLY | O_CREAT, 0666);
  if (fd < 0 || write(fd, "open", 4) != 4) sim_fail("cannot write", path);
}

int main(int argc, char **argv) {
  sim_t sim;
  const char *how = argc > 1 ? argv[1] : "exit";
  int status = -1;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int s = 0; s < 20; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 2) MPI_Finalize();
  if (strcmp(how, "exit")) leave_open(&sim);
  /* MPICH's launcher kills the others as soon as one is gone: not before each has its file. */
  if (argc <= 2) MPI_Barrier(MPI_COMM_WORLD);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) _exit(3);
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) abort();
  child = vfork();
  if (child == 0) _exit(4);
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 4) abort();
  signal(SIGUSR1, leave);
  if (!strcmp(how, "_exit")) _exit(0);
  if (!strcmp(how, "_Exit")) _Exit(0);
  if (!strcmp(how, "quick_exit")) quick_exit(0);
  if (!strcmp(how, "signal")) raise(SIGUSR1);
  exit(0);
}
