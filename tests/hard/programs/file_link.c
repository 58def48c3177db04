/* Rank 0 writes `ckpt/s<number>.dat` and has the link `ckpt/latest` lead to it, argv[1] times, and
 * dies when the last link is made. With 0 it tells what the link leads to. */
#include "sim.h"
#include <signal.h>

static void checkpoint(int number) {
  char name[32], path[64];
  snprintf(name, sizeof name, "s%d.dat", number);
  snprintf(path, sizeof path, "ckpt/%s", name);
  FILE *file = fopen(path, "w");
  if (!file || fprintf(file, "%d\n", number) < 0 || fclose(file) != 0)
    sim_fail("cannot write", path);
  if (symlink(name, "ckpt/.latest") != 0 || rename("ckpt/.latest", "ckpt/latest") != 0)
    sim_fail("cannot make", "ckpt/latest");
}

int main(int argc, char **argv) {
  int count = atoi(argv[1]), rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && count == 0) {
    char text[32] = "none\n";
    FILE *file = fopen("ckpt/latest", "r");
    if (file && (!fgets(text, sizeof text, file) || fclose(file) != 0))
      sim_fail("cannot read", "ckpt/latest");
    printf("begins with %s", text);
  }
  if (rank == 0) mkdir("ckpt", 0777);
  for (int number = 1; number <= count; number++) {
    if (rank == 0) checkpoint(number);
    if (rank == 0 && number == count) raise(SIGKILL);
    sim_calm(20, 10000);
  }
  MPI_Finalize();
  return 0;
}
