/* Every rank changes checkpoint files that its neighbour wrote long before: of the newest
 * checkpoint and of an older one, in place, by stdio. Every rank then reads what has become of its
 * own. */
#include "sim.h"

static void settle(void) {
  sim_calm(20, 5000);
}

static void change(const sim_t *sim, int step) {
  char path[256], text[64];
  sim_t of = *sim;
  of.rank = (sim->rank + 1) % sim->size;
  sim_path(path, sizeof path, &of, step);
  int bytes = snprintf(text, sizeof text, "changed by %d at %d", sim->rank, sim->step);
  FILE *file = fopen(path, "r+");
  if (!file || fseek(file, 1000, SEEK_SET) != 0) sim_fail("cannot open", path);
  if (fwrite(text, bytes, 1, file) != 1 || fclose(file) != 0) sim_fail("cannot write", path);
}

static void show(const sim_t *sim, int step) {
  char path[256];
  uint64_t mine = 0, all = 0;
  int c;
  sim_path(path, sizeof path, sim, step);
  FILE *file = fopen(path, "r");
  if (!file) sim_fail("cannot read", path);
  while ((c = getc(file)) != EOF) mine = mine * 31 + (uint64_t)c;
  fclose(file);
  mine = (mine + 1) * (uint64_t)(2 * sim->rank + 1);
  MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (sim->rank == 0) printf("step %d has %016llx\n", step, (unsigned long long)all);
}

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int i = 0; i < 6; i++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (i == 4) {
      change(&sim, 2);
      change(&sim, 4);
      settle();
      show(&sim, 2);
      show(&sim, 4);
    }
    sim_checkpoint(&sim);
    settle();
  }
  show(&sim, 2);
  show(&sim, 4);
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
