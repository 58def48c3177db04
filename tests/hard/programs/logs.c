/* Checkpoints, and files beside them that are never quiet. argv[1] steps, argv[2] every, argv[3]:
 * "open": a log of each rank that stays open for the whole run, with a line for each step;
 * "append": one that is opened, appended to and closed at each step;
 * "shared": one that all ranks append to, in turn. argv[4]: all die at step 150. */
#include "sim.h"
#include <signal.h>

static FILE *open_log(const sim_t *sim, const char *kind) {
  char path[256];
  snprintf(path, sizeof path, "ckpt/run_%d.log", strcmp(kind, "shared") ? sim->rank : 0);
  FILE *log = fopen(path, "a");
  if (!log) sim_fail("cannot open", path);
  return log;
}

static void line(FILE *log, const sim_t *sim) {
  if (fprintf(log, "rank %d has passed step %d\n", sim->rank, sim->step) < 0 || fflush(log) != 0)
    sim_fail("cannot write", "the log");
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]);
  const char *kind = argv[3];
  FILE *log = NULL;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  mkdir("ckpt", 0777);
  if (strcmp(kind, "open") == 0) log = open_log(&sim, kind);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    for (int turn = 0; turn < sim.size; turn++) {
      if (strcmp(kind, "shared") == 0) MPI_Barrier(MPI_COMM_WORLD);
      if (strcmp(kind, "shared") == 0 ? turn != sim.rank : turn != 0) continue;
      if (strcmp(kind, "open") != 0) log = open_log(&sim, kind);
      line(log, &sim);
      if (strcmp(kind, "open") != 0 && fclose(log) != 0) sim_fail("cannot close", "the log");
    }
    if (sim.step % every == 0) sim_checkpoint(&sim);
    if (argc > 4 && sim.step == 150) {
      MPI_Barrier(MPI_COMM_WORLD);
      raise(SIGKILL);
    }
    usleep(2000);
  }
  if (strcmp(kind, "open") == 0 && fclose(log) != 0) sim_fail("cannot close", "the log");
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
