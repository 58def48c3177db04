/* Two ranks of one node see at once what the other does with checkpoint files, in the order that
 * messages give; no collective call between. Each look is one number; rank 0 prints them all. */
#include <dirent.h>

#include "sim.h"

#define LOOKS 512
static long looks[LOOKS];
static int count;

static void look(long found) {
  if (count < LOOKS) looks[count++] = found;
}

/* Size or -errno. */
static void look_at(const char *path) {
  struct stat found;
  look(stat(path, &found) == 0 ? (long)found.st_size : -errno);
}

static void read_it(const char *path) {
  uint64_t sum = 0;
  int c;
  FILE *file = fopen(path, "r");
  look(file ? 0 : -errno);
  while (file && (c = getc(file)) != EOF) sum = sum * 31 + (uint64_t)c;
  if (file) fclose(file);
  look((long)(sum & 0xffffff));
}

static void list(const char *path) {
  long names = 0, sum = 0;
  DIR *dir = opendir(path);
  look(dir ? 0 : -errno);
  for (struct dirent *entry; dir && (entry = readdir(dir)); names++)
    for (const char *at = entry->d_name; *at; at++) sum += *at;
  if (dir) closedir(dir);
  look(names * 100000 + sum);
}

static void make(const char *path, const char *text, int flags) {
  int fd = open(path, O_WRONLY | O_CREAT | flags, 0666);
  look(fd < 0 ? -errno : 0);
  if (fd >= 0 && (write(fd, text, strlen(text)) < 0 || close(fd) != 0)) sim_fail("write", path);
}

/* The turn goes from one rank to the other. */
static void turn(int rank, int to) {
  int token = 0;
  if (rank == to)
    MPI_Recv(&token, 1, MPI_INT, 1 - to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    MPI_Send(&token, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
}

static void dance(const sim_t *sim, int step) {
  char path[256], other[256], dir[64];
  int me = sim->rank;
  snprintf(dir, sizeof dir, "ckpt/step_%d", step);
  snprintf(path, sizeof path, "%s/rank_0.dat", dir);
  snprintf(other, sizeof other, "%s/rank_7.dat", dir);
  turn(me, 1);
  if (me == 1) look_at(path), list(dir), read_it(path);
  if (me == 1) make(path, "never", O_EXCL), look(unlink(path) ? -errno : 0), look_at(path);
  turn(me, 0);
  if (me == 0) look_at(path), list(dir), make(path, "made again", O_EXCL);
  turn(me, 1);
  if (me == 1) read_it(path), list(dir), look(rename(path, other) ? -errno : 0), list(dir);
  turn(me, 0);
  if (me == 0) look_at(path), look_at(other), look(rename(other, path) ? -errno : 0);
  turn(me, 1);
  if (me == 1) look_at(path), look_at(other), read_it(path), list(dir);
  turn(me, 0);
}

/* A directory goes with all that is in it, and comes again. */
static void clear(const sim_t *sim, int step) {
  char path[256], dir[64];
  int me = sim->rank;
  snprintf(dir, sizeof dir, "ckpt/step_%d", step);
  turn(me, 1);
  for (int rank = 0; me == 1 && rank < 2; rank++) {
    snprintf(path, sizeof path, "%s/rank_%d.dat", dir, rank);
    look(unlink(path) ? -errno : 0);
  }
  if (me == 1) look(rmdir(dir) ? -errno : 0);
  turn(me, 0);
  snprintf(path, sizeof path, "%s/rank_0.dat", dir);
  if (me == 0) look_at(path), look(access(dir, F_OK) ? -errno : 0), list("ckpt");
  if (me == 0) make(path, "no directory", 0), look(mkdir(dir, 0777) ? -errno : 0);
  if (me == 0) make(path, "in the new one", O_EXCL);
  turn(me, 1);
  if (me == 1) look(access(dir, F_OK) ? -errno : 0), list(dir), read_it(path);
  snprintf(path, sizeof path, "%s/rank_1.dat", dir);
  if (me == 1) make(path, "there, too", O_EXCL);
  turn(me, 0);
}

int main(int argc, char **argv) {
  static long all[2 * LOOKS];
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int i = 0; i < 8; i++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.rank == 0 || sim.step % 2) sim_checkpoint(&sim);
    dance(&sim, sim.step);
    if (sim.step >= 4) dance(&sim, sim.step - 2);
    if (sim.step == 7) clear(&sim, 1), clear(&sim, 3);
    for (int quiet = 0; quiet < 15; quiet++) {
      usleep(5000);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  MPI_Gather(looks, LOOKS, MPI_LONG, all, LOOKS, MPI_LONG, 0, MPI_COMM_WORLD);
  for (int i = 0; sim.rank == 0 && i < 2 * LOOKS; i++)
    if (i % LOOKS < count) printf("look %d: %ld\n", i, all[i]);
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
