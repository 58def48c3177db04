/* What a program that looks for its newest checkpoint sees: a line a directory below ckpt/. */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/stat.h>

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  struct dirent **steps;
  int count = rank == 0 ? scandir("ckpt", &steps, visible, versionsort) : 0;
  for (int i = 0; i < count; i++) {
    char dir[512];
    struct dirent **files;
    struct stat st;
    snprintf(dir, sizeof dir, "ckpt/%s", steps[i]->d_name);
    int inside = scandir(dir, &files, visible, versionsort);
    printf("%s%s", steps[i]->d_name, stat(dir, &st) == 0 ? "" : " (no stat)");
    for (int j = 0; j < inside; j++) {
      char path[1024];
      snprintf(path, sizeof path, "%s/%s", dir, files[j]->d_name);
      printf(" %s%s", files[j]->d_name, stat(path, &st) == 0 ? "" : " (no stat)");
    }
    printf("\n");
  }
  MPI_Finalize();
  return 0;
}
