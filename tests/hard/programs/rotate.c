/* Rank 0 rotates what all ranks have written: `qnow` becomes `qprev`, single files of the others
 * get another name, matched or not, or a second one. Each rank then says what it finds. */
#include <dirent.h>

#include "sim.h"

static sim_t sim;

static void put(const char *dir, const char *kind, int step) {
  char path[256];
  mkdir(dir, 0777);
  snprintf(path, sizeof path, "%s/%s%d", dir, kind, sim.rank);
  FILE *file = fopen(path, "w");
  if (!file) sim_fail("cannot open", path);
  fprintf(file, "%s of rank %d at %d\n", kind, sim.rank, step);
  if (fclose(file) != 0) sim_fail("cannot close", path);
}

static void say(const char *what, const char *from, const char *to, int done) {
  printf("%s %s %s: %s\n", what, from, to, done == 0 ? "done" : strerror(errno));
}

static void clear(const char *dir) {
  char path[256];
  for (int of = 0; of < sim.size; of++) {
    snprintf(path, sizeof path, "%s/c%d", dir, of);
    if (unlink(path) != 0) say("unlink", path, "", -1);
  }
  if (rmdir(dir) != 0) say("rmdir", dir, "", -1);
}

static void show(const char *name) {
  char text[64] = "nothing\n";
  FILE *file = fopen(name, "r");
  if (file) {
    if (!fgets(text, sizeof text, file)) strcpy(text, "empty\n");
    fclose(file);
  }
  printf("rank %d: %s: %s", sim.rank, name, text);
}

/* Every rank looks at its own files; rank 0 not at those of others before it has moved them, or
 * they would be known as files that other nodes read. */
static void look(int step) {
  static const char *const own[] = {"qnow/c%d", "p%2$d/f%1$d", "p%2$d/g%1$d", "p%2$d/h%1$d"};
  static const char *const moved[] = {"qprev/c%d", "kept_%2$d_%1$d", "p%2$d/m%1$d",
                                      "link_%2$d_%1$d"};
  char path[256];
  for (int of = 0; of < sim.size; of++)
    for (size_t i = 0; i < 8; i++) {
      if (i < 4 ? of != sim.rank : sim.rank != 0 && of != sim.rank) continue;
      snprintf(path, sizeof path, i < 4 ? own[i] : moved[i - 4], of, step);
      show(path);
    }
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 moves the files of step `step` of the last rank. */
static void move(int step) {
  char from[256], to[256];
  int of = sim.size - 1;
  snprintf(from, sizeof from, "p%d/f%d", step, of);
  snprintf(to, sizeof to, "kept_%d_%d", step, of);
  say("rename", from, to, rename(from, to));
  snprintf(from, sizeof from, "p%d/g%d", step, of);
  snprintf(to, sizeof to, "p%d/m%d", step, of);
  say("rename", from, to, rename(from, to));
  snprintf(from, sizeof from, "p%d/h%d", step, of);
  snprintf(to, sizeof to, "link_%d_%d", step, of);
  say("link", from, to, link(from, to));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  int steps = atoi(argv[1]);
  char dir[64];
  for (int step = 0; step < steps; step++) {
    if (sim.rank == 0 && step > 0) {
      if (step > 1) clear("qprev");
      say("rename", "qnow", "qprev", rename("qnow", "qprev"));
    }
    if (sim.rank == 0 && step > 1) move(step - 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (step > 0) look(step - 1);
    put("qnow", "c", step);
    snprintf(dir, sizeof dir, "p%d", step);
    put(dir, "f", step);
    put(dir, "g", step);
    put(dir, "h", step);
    sim_calm(40, 5000);
    look(step);
  }
  MPI_Finalize();
  return 0;
}
