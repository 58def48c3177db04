/* A directory of checkpoint files moves away and comes back, and another one takes its place:
 * rank 0 renames, all ranks say what they find. argv[1]: generations that are written in place
 * before. */
#include "sim.h"

static sim_t sim;

static void settle(void) {
  sim_calm(60, 2000);
}

static void put(const char *dir, int value) {
  char path[256];
  mkdir(dir, 0777);
  MPI_Barrier(MPI_COMM_WORLD);
  snprintf(path, sizeof path, "%s/rank_%d.dat", dir, sim.rank);
  FILE *file = fopen(path, "w");
  if (!file) sim_fail("cannot open", path);
  fprintf(file, "%d of rank %d\n", value, sim.rank);
  if (fclose(file) != 0) sim_fail("cannot close", path);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void move(const char *from, const char *to) {
  settle();
  if (sim.rank == 0) printf("%s -> %s: %d\n", from, to, rename(from, to));
  MPI_Barrier(MPI_COMM_WORLD);
}

static void drop(const char *dir) {
  char path[256];
  snprintf(path, sizeof path, "%s/rank_%d.dat", dir, sim.rank);
  int own = unlink(path);
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim.rank == 0) printf("%s removed: %d %d\n", dir, own, rmdir(dir));
  MPI_Barrier(MPI_COMM_WORLD);
}

static void look(const char *dir) {
  for (int from = 0; from < sim.size; from++)
    for (int of = 0; of < sim.size; of++) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (sim.rank != from) continue;
      char path[256], text[64] = "nothing\n";
      snprintf(path, sizeof path, "%s/rank_%d.dat", dir, of);
      FILE *file = fopen(path, "r");
      if (file) {
        if (!fgets(text, sizeof text, file)) strcpy(text, "empty\n");
        fclose(file);
      }
      char out[400];
      int bytes = snprintf(out, sizeof out, "rank %d: %s: %s", from, path, text);
      int fd = open("seen", O_WRONLY | O_CREAT | O_APPEND, 0666);
      if (write(fd, out, bytes) != bytes) sim_fail("cannot write", "seen");
      close(fd);
    }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int i = 0; i < atoi(argv[1]); i++) {
    put("save", i);
    settle();
  }
  move("save", "save.old");
  look("save");
  look("save.old");
  move("save.old", "save");
  look("save");
  look("save.old");
  put("save.tmp", 100); /* a new one is made elsewhere and takes the place of the old one */
  drop("save");
  look("save");
  move("save.tmp", "save");
  look("save");
  put("save", 200);
  settle();
  look("save");
  MPI_Finalize();
  return 0;
}
