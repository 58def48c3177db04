/* Heat on a ring; checkpoints by POSIX open and write: a file a rank in a directory a step, and a
 * header that rank 0 keeps open while it writes its own file. Restart: rank 0 lists `ckpt`. */
#include <dirent.h>
#include "heat.h"

static void write_all(int fd, const void *data, size_t bytes, const char *path) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t wrote = write(fd, at, bytes);
    if (wrote < 0) heat_fail("cannot write", path);
    at += wrote;
    bytes -= (size_t)wrote;
  }
}

static void write_checkpoint(heat_t *heat) {
  char dir[200], path[256], head[256], text[64];
  int header = -1;
  snprintf(dir, sizeof dir, "ckpt/step_%d", heat->step);
  if (heat->rank == 0) {
    mkdir("ckpt", 0777);
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) heat_fail("cannot make", dir);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (heat->rank == 0) {
    snprintf(head, sizeof head, "%s/header", dir);
    header = open(head, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (header < 0) heat_fail("cannot open", head);
  }
  snprintf(path, sizeof path, "%s/rank_%d.dat", dir, heat->rank);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) heat_fail("cannot open", path);
  write_all(fd, &heat->step, sizeof heat->step, path);
  write_all(fd, heat->cells, sizeof heat->cells / 2, path);
  heat_pause(heat, "write", heat->step);
  write_all(fd, (char *)heat->cells + sizeof heat->cells / 2, sizeof heat->cells / 2, path);
  if (close(fd) != 0) heat_fail("cannot close", path);
  if (header >= 0) {
    int length = snprintf(text, sizeof text, "%d %d\n", heat->step, heat->size);
    write_all(header, text, (size_t)length, head);
    if (close(header) != 0) heat_fail("cannot close", head);
  }
}

static int read_part(heat_t *heat, int step) {
  char path[256];
  int found = 0;
  snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", step, heat->rank);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  double *cells = malloc(sizeof heat->cells);
  int ok = read(fd, &found, sizeof found) == (ssize_t)sizeof found && found == step
      && read(fd, cells, sizeof heat->cells) == (ssize_t)sizeof heat->cells;
  close(fd);
  if (ok) { memcpy(heat->cells, cells, sizeof heat->cells); heat->step = step; }
  free(cells);
  return ok;
}

/* Largest step below `below` with a header that is complete. */
static int newest_step(int below) {
  int newest = 0, step;
  DIR *dir = opendir("ckpt");
  struct dirent *entry;
  while (dir && (entry = readdir(dir))) {
    char path[256];
    int ranks = 0, written = -1;
    if (sscanf(entry->d_name, "step_%d", &step) != 1 || step <= newest || step >= below) continue;
    snprintf(path, sizeof path, "ckpt/step_%d/header", step);
    FILE *header = fopen(path, "r");
    if (!header) continue;
    if (fscanf(header, "%d %d", &written, &ranks) == 2 && written == step) newest = step;
    fclose(header);
  }
  if (dir) closedir(dir);
  return newest;
}

static void restart(heat_t *heat) {
  int step = 1 << 30;
  while (step > 0) {
    int mine, all;
    if (heat->rank == 0) step = heat->from >= 0 && step == 1 << 30 ? heat->from : newest_step(step);
    MPI_Bcast(&step, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (step == 0) return;
    mine = read_part(heat, step);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all) return;
    heat_t *fresh = malloc(sizeof *fresh); /* incomplete: from the start, then the next older one */
    *fresh = *heat;
    fresh->step = 0;
    for (int i = 0; i < HEAT_CELLS; i++) fresh->cells[i] = (heat->rank * 31 + i * 7) % 101;
    *heat = *fresh;
    free(fresh);
  }
}

int main(int argc, char **argv) {
  static heat_t heat;
  MPI_Init(&argc, &argv);
  heat_start(&heat, argc, argv);
  restart(&heat);
  heat_tell_restart(&heat);
  while (heat.step < heat.steps) {
    heat_step(&heat);
    if (heat.step % heat.every == 0) write_checkpoint(&heat);
    heat_pause(&heat, "step", heat.step);
  }
  heat_finish(&heat);
  MPI_Finalize();
  return 0;
}
