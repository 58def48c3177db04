/* Writes a file a rank at three steps, and gives it the rights of argv[1] (octal), as programs do
 * that protect their checkpoints. Tells after each step, and for all steps at the start, what may
 * be done to the file. argv[2] "die": is killed at the end. */
#include <signal.h>

#include "sim.h"

static const char *tried(int status) { return status < 0 ? strerror(errno) : "done"; }

static void look_at(const sim_t *sim, int step, mode_t rights) {
  char path[256];
  struct stat found;
  sim_path(path, sizeof path, sim, step);
  if (stat(path, &found)) return;
  char *line;
  size_t length;
  FILE *said = open_memstream(&line, &length);
  fprintf(said, "rank %d step %d: rights %o, %ld bytes, ", sim->rank, step, found.st_mode & 07777,
         (long)found.st_size);
  int file = open(path, O_RDONLY);
  fprintf(said, "read %s, ", tried(file));
  if (file >= 0) close(file);
  file = open(path, O_WRONLY);
  fprintf(said, "write %s, ", tried(file));
  if (file >= 0) close(file);
  fprintf(said, "truncate %s, ", tried(truncate(path, SIM_CELLS)));
  fprintf(said, "times %s, ", tried(utimensat(AT_FDCWD, path, NULL, 0)));
  fprintf(said, "mine %s, ", tried(chmod(path, 0600)));
  char bytes[64] = "";
  file = open(path, O_RDONLY);
  if (file < 0 || read(file, bytes, sizeof bytes - 1) < 0) strcpy(bytes, strerror(errno));
  close(file);
  fprintf(said, "back %s: %s\n", tried(chmod(path, rights)), bytes);
  fclose(said);
  if (write(1, line, length) < 0) sim_fail("say", path);  // in one piece
  free(line);
}

int main(int argc, char **argv) {
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  mode_t rights = strtol(argv[1], NULL, 8);
  for (int step = 5; step <= 15; step += 5) look_at(&sim, step, rights);
  for (int step = 5; step <= 15; step += 5) {
    char path[256];
    sim_path(path, sizeof path, &sim, step);
    if (!access(path, F_OK)) continue;
    *strrchr(path, '/') = 0;
    if (!sim.rank) mkdir("ckpt", 0777);
    if (!sim.rank) mkdir(path, 0777);
    MPI_Barrier(MPI_COMM_WORLD);
    sim_path(path, sizeof path, &sim, step);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    char bytes[2 * SIM_CELLS] = {0};
    sprintf(bytes, "%d of %d", step, sim.rank);
    if (file < 0 || write(file, bytes, sizeof bytes) < 0) sim_fail("write", path);
    if (fchmod(file, rights) || close(file)) sim_fail("close", path);
    sim_calm(20, 10000);
    look_at(&sim, step, rights);
    sim_calm(20, 10000);
  }
  if (argc > 2 && sim.rank == 1) raise(SIGKILL);
  MPI_Finalize();
  return 0;
}
