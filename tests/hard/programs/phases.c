/* A checkpoint in phases with barriers between them, which lie closer together than any agreement
 * about it. First all ranks write their files, into `ckpt/step_N.new/`; then rank 0 finds, sizes
 * and reads those of all others, deletes the marks that they have left, writes a header and, by
 * the argument "move", moves the directory to `ckpt/step_N`; then all say what they find. */
#include <dirent.h>

#include "sim.h"

static sim_t sim;

static void put(const char *dir, const char *kind) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s_%d", dir, kind, sim.rank);
  FILE *file = fopen(path, "w");
  if (!file) sim_fail("cannot open", path);
  fprintf(file, "%s of rank %d at %d, %0*d\n", kind, sim.rank, sim.step, sim.rank + 1, 0);
  if (fclose(file) != 0) sim_fail("cannot close", path);
}

static int entries(const char *dir) {
  DIR *listing = opendir(dir);
  int found = 0;
  while (listing && readdir(listing)) found++;
  if (listing) closedir(listing);
  return found;
}

static void show(const char *dir, const char *kind, int of, int reads) {
  char path[256], text[128] = "";
  struct stat found;
  snprintf(path, sizeof path, "%s/%s_%d", dir, kind, of);
  if (stat(path, &found) != 0) {
    printf("rank %d: %s: %s\n", sim.rank, path, strerror(errno));
    return;
  }
  FILE *file = reads ? fopen(path, "r") : NULL;
  if (reads && (!file || !fgets(text, sizeof text, file))) strcpy(text, "cannot be read\n");
  if (file) fclose(file);
  printf("rank %d: %s: %ld bytes %s\n", sim.rank, path, (long)found.st_size, text);
}

static void gather(const char *dir, int reads) {
  char path[256];
  printf("%s: %d entries\n", dir, entries(dir));
  for (int of = 0; of < sim.size; of++) {
    show(dir, "part", of, reads);
    snprintf(path, sizeof path, "%s/mark_%d", dir, of);
    if (unlink(path) != 0) printf("%s: %s\n", path, strerror(errno));
  }
  put(dir, "header");
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  int steps = atoi(argv[1]), reads_from = atoi(argv[2]), moves = argc > 3;
  char dir[80], last[64];
  mkdir("ckpt", 0777);
  for (int step = 1; step <= steps; step++) {
    sim_step(&sim, MPI_COMM_WORLD);
    snprintf(last, sizeof last, "ckpt/step_%d", step);
    snprintf(dir, sizeof dir, "%s%s", last, moves ? ".new" : "");
    if (sim.rank == 0 && mkdir(dir, 0777) != 0) sim_fail("cannot make", dir);
    MPI_Barrier(MPI_COMM_WORLD);
    put(dir, "part");
    put(dir, "mark");
    MPI_Barrier(MPI_COMM_WORLD);
    if (sim.rank == 0 && step >= reads_from) gather(dir, !moves);
    MPI_Barrier(MPI_COMM_WORLD);
    if (sim.rank == 0 && moves && rename(dir, last) != 0) printf("%s: %s\n", dir, strerror(errno));
    if (!moves && sim.rank != 0) show(dir, "mark", sim.rank, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    show(last, "part", sim.rank, 1);
    show(last, "header", 0, 0);
    printf("rank %d: %s: %d entries\n", sim.rank, last, entries(last));
    fflush(stdout);
    sim_calm(40, 4000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
