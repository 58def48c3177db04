/* Rank 0 keeps its last three states as CP2K does: it removes `w.restart.bak-2`, moves the other
 * two on, and writes `w.restart`. argv[1] states, argv[2] a file that it makes then, to wait for
 * its end. It begins by saying what it finds. */
#include "sim.h"

static const char *const names[] = {"w.restart", "w.restart.bak-1", "w.restart.bak-2"};

static int look(const char *name) {
  int state = 0;
  FILE *file = fopen(name, "r");
  if (!file) return 0;
  if (fscanf(file, "state %d,", &state) != 1) state = -1;
  fclose(file);
  return state;
}

static void rotate(int state) {
  unlink(names[2]);
  for (int at = 2; at > 0; at--)
    if (rename(names[at - 1], names[at]) != 0 && errno != ENOENT) sim_fail("rename", names[at]);
  FILE *file = fopen(names[0], "w");
  if (!file || fprintf(file, "state %d, and so on\n", state) < 0 || fclose(file) != 0)
    sim_fail("cannot write", names[0]);
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    printf("found %d %d %d\n", look(names[0]), look(names[1]), look(names[2]));
    fflush(stdout);
  }
  for (int state = 1; state <= atoi(argv[1]); state++) {
    if (rank == 0) rotate(state);
    sim_calm(150, 10000);
  }
  if (argc > 2) {
    if (rank == 0) fclose(fopen(argv[2], "w"));
    while (1) sim_calm(1, 10000);
  }
  MPI_Finalize();
  return 0;
}
