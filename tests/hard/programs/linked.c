/* Checkpoints below ckpt, which is a symbolic link, and what the program sees of them by every way
 * that leads there. argv[1] "found": the link is there; "late": rank 0 makes it, to argv[2];
 * "replaced": rank 0 points it from one directory to argv[2] after the third checkpoint. */
#define _GNU_SOURCE
#include "sim.h"
#include <dirent.h>

static char here[4096], far[4096];

static void show(int rank, const char *way, const char *path) {
  char text[64] = "", real[4096] = "", name[64], behind[4096] = "";
  struct stat by_path = {0}, by_fd = {0};
  int fd = open(path, O_RDONLY);
  if (fd >= 0 && read(fd, text, sizeof text - 1) < 0) text[0] = '!';
  int same = fd >= 0 && fstat(fd, &by_fd) == 0 && stat(path, &by_path) == 0 &&
             by_fd.st_ino == by_path.st_ino && by_fd.st_dev == by_path.st_dev;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  if (fd >= 0 && readlink(name, behind, sizeof behind - 1) < 0) behind[0] = '!';
  if (!realpath(path, real)) real[0] = 0;
  printf("%d %s: %s; same %d; lies there %d %d\n", rank, way, text, same,
         strncmp(real, far, strlen(far)) == 0, strncmp(behind, far, strlen(far)) == 0);
  if (fd >= 0) close(fd);
}

static void list(int rank, const char *way, const char *directory) {
  struct dirent **found;
  int count = scandir(directory, &found, NULL, alphasort);
  printf("%d %s:", rank, way);
  for (int i = 0; i < count; i++) printf(" %s", found[i]->d_name);
  printf("\n");
}

static void look(int rank, int step) {
  char own[64], path[8300], command[8300];
  struct stat st;
  snprintf(own, sizeof own, "step_%d/rank_%d.dat", step, rank);
  snprintf(path, sizeof path, "ckpt/%s", own);
  show(rank, "through the link", path);
  snprintf(path, sizeof path, "%s/ckpt/%s", here, own);
  show(rank, "absolute", path);
  snprintf(path, sizeof path, "%s/%s", far, own);
  show(rank, "where it lies", path);
  if (chdir("ckpt") == 0) show(rank, "from inside", own);
  if (chdir("step_1/..") == 0) show(rank, "from inside again", own);
  if (chdir(here) != 0) sim_fail("chdir", here);
  list(rank, "link", "ckpt");
  list(rank, "place", far);
  snprintf(path, sizeof path, "%s/step_%d", far, step);
  list(rank, "checkpoint", path);
  printf("%d link %d\n", rank, lstat("ckpt", &st) == 0 && S_ISLNK(st.st_mode));
  fflush(stdout);
  snprintf(command, sizeof command, "cat ckpt/%s %s/%s; cd ckpt && cat %s; ls", own, far, own, own);
  if (system(command) != 0) sim_fail("cannot run", command);
}

static void write_one(const char *path, int step) {
  char text[64];
  int bytes = snprintf(text, sizeof text, "step %d\n", step);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || write(fd, text, bytes) != bytes || close(fd) != 0) sim_fail("cannot write", path);
}

static void point_at(const char *where) {
  if (symlink(where, "ckpt.new") != 0 || rename("ckpt.new", "ckpt") != 0) sim_fail("link", where);
}

int main(int argc, char **argv) {
  int rank, size, found = strcmp(argv[1], "found") == 0;
  char path[8300];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!getcwd(here, sizeof here)) sim_fail("getcwd", ".");
  if (rank == 0 && strcmp(argv[1], "late") == 0) point_at(argv[2]);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!realpath("ckpt", far)) sim_fail("realpath", "ckpt");
  for (int step = 1; step <= 5; step++) {
    snprintf(path, sizeof path, "ckpt/step_%d", step);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", step, rank);
    // The last but one by its other name, and the last by a temporary one.
    if (step == 4 && found) snprintf(path, sizeof path, "%s/step_4/rank_%d.dat", far, rank);
    if (step < 5 || !found) {
      write_one(path, step);
    } else {
      char temporary[8320];
      snprintf(temporary, sizeof temporary, "%s.tmp", path);
      write_one(temporary, step);
      if (rename(temporary, path) != 0) sim_fail("cannot rename", temporary);
    }
    sim_calm(60, 1000);
    if (step == 3 && strcmp(argv[1], "replaced") == 0) {
      if (rank == 0) point_at(argv[2]);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  if (found) {
    snprintf(path, sizeof path, "%s/step_1/rank_%d.dat", far, rank);
    if (unlink(path) != 0) sim_fail("cannot delete", path);
    for (int turn = 0; turn < size; turn++) { // so that the lines do not mix
      for (int step = 2; turn == rank && step <= 5; step++) look(rank, step);
      sim_calm(20, 1000);
    }
  }
  MPI_Finalize();
  return 0;
}
