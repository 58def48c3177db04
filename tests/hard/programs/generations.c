/* Each rank keeps its last checkpoints: `s.R.1` becomes `s.R.2`, `s.R` becomes `s.R.1`, `s.R` is
 * written. The first two are written over one another, if there is none of an earlier run.
 * `copied`: `s.R` is copied to `s.R.1`, and the new one replaces it by a rename from
 * `s_step<number>.R`. Rank 0 says at the start what each finds; all kill themselves when they have
 * written the last one.
 * usage: generations NAMES STEPS aside|over|copied */
#include <signal.h>

#include "sim.h"

static sim_t sim;

static void name_of(char *name, size_t bytes, int generation) {
  if (generation > 0)
    snprintf(name, bytes, "s.%d.%d", sim.rank, generation);
  else
    snprintf(name, bytes, "s.%d", sim.rank);
}

static void copy(const char *from, const char *to) {
  char content[64];
  FILE *file = fopen(from, "r");
  if (!file) return;
  size_t length = fread(content, 1, sizeof content, file);
  fclose(file);
  file = fopen(to, "w");
  if (!file || fwrite(content, 1, length, file) != length || fclose(file) != 0)
    sim_fail("cannot copy to", to);
}

static void put(int names, int step, int moves, const char *how) {
  int aside = strcmp(how, "aside") == 0, copied = strcmp(how, "copied") == 0;
  char name[64], older[64], path[80];
  for (int generation = names - 1; moves && generation > 0; generation--) {
    name_of(name, sizeof name, generation - 1);
    name_of(older, sizeof older, generation);
    if (copied)
      copy(name, older);
    else if (rename(name, older) != 0 && errno != ENOENT) sim_fail("cannot rename", name);
  }
  name_of(name, sizeof name, 0);
  if (moves && !copied && access(name, F_OK) == 0) sim_fail("is still there:", name);
  snprintf(path, sizeof path, aside ? "%s.new" : "%s", name);
  if (copied) snprintf(path, sizeof path, "s_step%d.%d", step, sim.rank);
  FILE *file = fopen(path, "w");
  if (!file || fprintf(file, "%d\n", step) < 0 || fclose(file) != 0)
    sim_fail("cannot write", path);
  if (strcmp(path, name) != 0 && rename(path, name) != 0) sim_fail("cannot rename", path);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  int names = atoi(argv[1]), steps = atoi(argv[2]);
  const char *how = argc > 3 ? argv[3] : "over";
  int begun = 0;
  char text[128] = "", all[8][128];
  int length = snprintf(text, sizeof text, "rank %d:", sim.rank);
  for (int generation = 0; generation < names; generation++) {
    char name[64];
    int step = 0;
    name_of(name, sizeof name, generation);
    FILE *file = fopen(name, "r");
    if (file && fscanf(file, "%d", &step) != 1) step = -1;
    if (file) fclose(file);
    begun |= step > 0;
    length += snprintf(text + length, sizeof text - length, " %d", step);
  }
  MPI_Gather(text, sizeof text, MPI_CHAR, all, sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);
  for (int of = 0; sim.rank == 0 && of < sim.size; of++) puts(all[of]);
  fflush(stdout);
  for (int step = 1; step <= steps; step++) {
    put(names, step, step > 2 || begun, how);
    sim_calm(40, 4000);
  }
  if (steps > 0) kill(getpid(), SIGKILL);
  MPI_Finalize();
  return 0;
}
