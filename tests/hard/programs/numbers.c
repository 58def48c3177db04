/* What readdir says of a file's number is what stat says: for checkpoint files as they are written,
 * sealed, flushed and gone again, and those of other ranks. Prints nothing but mistakes. */
#include "sim.h"
#include <dirent.h>

static void look(int rank, int now) {
  for (int step = 1; step <= 6; step++) {
    char dir[64], path[400];
    snprintf(dir, sizeof dir, "ckpt/step_%d", step);
    DIR *open = opendir(dir);
    struct dirent *entry;
    struct stat st;
    int files = 0;
    while (open && (entry = readdir(open))) {
      if (entry->d_name[0] == '.') continue;
      snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
      files++;
      if (stat(path, &st) != 0) printf("%d: %s has gone\n", rank, path);
      else if (st.st_ino != entry->d_ino) printf("%d at %d: %s is another\n", rank, now, path);
    }
    if (open) closedir(open);
    if (step <= now && files == 0) printf("%d: nothing in %s\n", rank, dir);
  }
}

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (sim.step = 1; sim.step <= 6; sim.step++) {
    sim_checkpoint(&sim);
    look(sim.rank, sim.step);
    sim_calm(60, 1000);
    look(sim.rank, sim.step);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
