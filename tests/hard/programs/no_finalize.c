/* Ends with the last checkpoint just closed, and one file still open if no handler of exit(3) would
 * close it. Argument 1, the end: exit, _exit, _Exit, quick_exit, or signal (a handler calls _exit);
 * argument 2: `finalized`, if MPI_Finalize comes before; `slow`: a file stays open in any case, and
 * a handler of exit(3) takes its time in all ranks but 0. Children end by _exit, too, and that
 * means nothing. */
#include <signal.h>
#include <sys/wait.h>

#include "sim.h"

static int slow_rank;

static void slow(void) {
  if (slow_rank) usleep(600000);
}

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
  int status = -1, finalized = argc > 2 && !strcmp(argv[2], "finalized");
  int is_slow = argc > 2 && !finalized;
  atexit(slow); /* comes after the handlers of all that MPI_Init loads */
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  slow_rank = is_slow ? sim.rank : 0;
  for (int s = 0; s < 20; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (finalized) MPI_Finalize();
  if (strcmp(how, "exit") || is_slow) leave_open(&sim);
  /* MPICH's launcher kills the others as soon as one is gone: not before each has its file. */
  if (!finalized) MPI_Barrier(MPI_COMM_WORLD);
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
