/* Checkpoints in q0, of which older ones move on to q1 and q2 as directories; rank 0 dies after the
 * last one. "look": what a program that looks for its newest checkpoint sees: how many of a
 * directory's files, and their text. */
#define _GNU_SOURCE
#include "sim.h"
#include <dirent.h>
#include <signal.h>

static void look(int rank, int size) {
  for (int q = 0; q < 3; q++) {
    char path[64], text[64];
    int mine = 0, all = 0, listed = 0;
    snprintf(path, sizeof path, "q%d/c%d", q, rank);
    int fd = open(path, O_RDONLY);
    if (fd >= 0) {
      ssize_t bytes = read(fd, text, sizeof text - 1);
      text[bytes < 0 ? 0 : bytes] = 0;
      mine = 1;
      close(fd);
    }
    MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank != 0) continue;
    snprintf(path, sizeof path, "q%d", q);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) listed += entry->d_name[0] == 'c';
    printf("q%d: %d of %d, %d listed", q, all, size, listed);
    printf(mine ? ", %s\n" : "\n", text);
  }
}

int main(int argc, char **argv) {
  int rank, size;
  char path[64], text[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(argv[1], "look") == 0) {
    look(rank, size);
    MPI_Finalize();
    return 0;
  }
  for (int step = 1; step <= 8; step++) {
    snprintf(path, sizeof path, "q2/c%d", rank);
    if (step > 3) unlink(path);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      if (step > 3) rmdir("q2");
      if (step > 2) rename("q1", "q2");
      if (step > 1) rename("q0", "q1");
      mkdir("q0", 0777);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(path, sizeof path, "q0/c%d", rank);
    int bytes = snprintf(text, sizeof text, "step %d", step);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0666);
    if (fd < 0 || write(fd, text, bytes) != bytes || close(fd)) sim_fail("cannot write", path);
    sim_calm(24, 5000);
  }
  if (rank == 0) kill(getpid(), SIGKILL);
  sim_calm(40, 5000);
  MPI_Finalize();
  return 0;
}
