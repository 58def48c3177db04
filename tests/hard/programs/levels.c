/* A checkpoint is a tree of directories with a temporary name, written by all ranks; when all have
 * written their files rank 0 renames it, and has moved away before what had that name. A restart
 * goes on from the newest directory that has a final name, and cannot do without any of its files.
 * argv: steps, every; then, if there is more, a step and a file that rank 0 makes when the
 * checkpoint of that step is complete, and waits for to be removed. */
#include <dirent.h>

#include "sim.h"

#define LEVELS 2

static sim_t sim;
static int pause_step;
static const char *pause_file;

static void pause_here(void) {
  struct stat found;
  if (sim.rank != 0 || sim.step != pause_step) return;
  int fd = open(pause_file, O_CREAT | O_WRONLY, 0666);
  if (fd >= 0) close(fd);
  while (stat(pause_file, &found) == 0) usleep(10000);
}

static void put(const char *dir, const char *name, int of, size_t bytes) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s%05d", dir, name, of);
  FILE *file = fopen(path, "wb");
  if (!file) sim_fail("cannot open", path);
  if (fwrite(&sim, 1, bytes, file) != bytes) sim_fail("cannot write", path);
  if (fclose(file) != 0) sim_fail("cannot close", path);
}

static void get(const char *dir, const char *name, int of, size_t bytes) {
  static sim_t found;
  char path[256];
  snprintf(path, sizeof path, "%s/%s%05d", dir, name, of);
  FILE *file = fopen(path, "rb");
  if (!file) sim_fail("cannot restart without", path);
  if (fread(&found, 1, bytes, file) != bytes) sim_fail("too short:", path);
  fclose(file);
  if (found.rank != of) sim_fail("of another rank:", path);
  if (bytes == sizeof found) sim = found;
}

static void level(char *path, size_t bytes, const char *dir, int number) {
  snprintf(path, bytes, "%s/Level_%d", dir, number);
}

static void clean(const char *dir) {
  char old[128];
  struct stat found;
  if (stat(dir, &found) != 0) return;
  snprintf(old, sizeof old, "%s.old.%d", dir, (int)getpid());
  if (rename(dir, old) != 0) sim_fail("cannot move away", dir);
}

static void checkpoint(void) {
  char last[64], dir[80], sub[128];
  snprintf(last, sizeof last, "ckpt/chk%05d", sim.step);
  snprintf(dir, sizeof dir, "%s.temp", last);
  if (sim.rank == 0) {
    mkdir("ckpt", 0777);
    clean(last);
    clean(dir);
    if (mkdir(dir, 0777) != 0) sim_fail("cannot make", dir);
    for (int i = 0; i < LEVELS; i++) {
      level(sub, sizeof sub, dir, i);
      if (mkdir(sub, 0777) != 0) sim_fail("cannot make", sub);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim.rank == 0) put(dir, "Header", 0, 64);
  for (int i = 0; i < LEVELS; i++) {
    level(sub, sizeof sub, dir, i);
    put(sub, "Cell_D_", sim.rank, i == 0 ? sizeof sim : 1000);
    if (sim.rank == 0) put(sub, "Cell_H_", 0, 100);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim.rank == 0 && rename(dir, last) != 0) sim_fail("cannot rename", dir);
  sim_calm(40, 2000);
  pause_here();
}

static int newest(void) {
  int newest = 0, step, end;
  DIR *listing = opendir("ckpt");
  struct dirent *entry;
  while (listing && (entry = readdir(listing))) {
    end = 0;
    if (sscanf(entry->d_name, "chk%5d%n", &step, &end) != 1 || entry->d_name[end]) continue;
    newest = step > newest ? step : newest;
  }
  if (listing) closedir(listing);
  return newest;
}

static void restart(void) {
  char dir[64], sub[128];
  int step = sim.rank == 0 ? newest() : 0;
  MPI_Bcast(&step, 1, MPI_INT, 0, MPI_COMM_WORLD);
  snprintf(dir, sizeof dir, "ckpt/chk%05d", step);
  if (sim.rank == 0) printf("restart %d\n", step);
  if (step == 0) return;
  if (sim.rank == 0) get(dir, "Header", 0, 64);
  for (int i = LEVELS - 1; i >= 0; i--) {
    level(sub, sizeof sub, dir, i);
    get(sub, "Cell_D_", sim.rank, i == 0 ? sizeof sim : 1000);
    if (sim.rank == 0) get(sub, "Cell_H_", 0, 100);
  }
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]);
  if (argc > 4) pause_step = atoi(argv[3]), pause_file = argv[4];
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  restart();
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) checkpoint();
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
