/* Files of a checkpoint are deleted, and their names become something else. Words: `before` and
 * `between`, where there is time for a seal. */
#include "sim.h"
#include <sys/types.h>

static const char *const kinds[] = {"symlink", "directory", "fifo", "node", "moved", "file"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) != 0) sim_fail("cannot write", path);
}

static int make(int kind, const char *path, const char *other) {
  switch (kind) {
    case 0: return symlink("base", path);
    case 1: return mkdir(path, 0755);
    case 2: return mkfifo(path, 0600);
    case 3: return mknod(path, S_IFREG | 0600, 0);
    case 4: return rename(other, path);
    default: put(path, "new"); return 0;
  }
}

static void look(const char *path) {
  struct stat st;
  char to[64] = "";
  int there = lstat(path, &st) == 0;
  ssize_t got = readlink(path, to, sizeof to - 1);
  printf("%s: %o %s %d\n", path, there ? st.st_mode & S_IFMT : 0, got < 0 ? "-" : to,
         open(path, O_WRONLY | O_CREAT | O_EXCL, 0600) < 0 && errno == EEXIST);
}

static void act(int between) {
  char path[64], other[64];
  for (int kind = 0; kind < KINDS; kind++) {
    snprintf(path, sizeof path, "ckpt/step_1/%s", kinds[kind]);
    if (unlink(path) != 0) sim_fail("cannot remove", path);
  }
  if (between) sim_calm(150, 1000);
  mkdir("ckpt/step_1/other", 0755);
  for (int kind = 0; kind < KINDS; kind++) {
    snprintf(path, sizeof path, "ckpt/step_1/%s", kinds[kind]);
    snprintf(other, sizeof other, "ckpt/step_1/other");
    if (make(kind, path, other) != 0) printf("%s: %s\n", path, strerror(errno));
    look(path);
  }
}

int main(int argc, char **argv) {
  int before = 0, between = 0;
  MPI_Init(&argc, &argv);
  for (int i = 1; i < argc; i++) {
    before |= strcmp(argv[i], "before") == 0;
    between |= strcmp(argv[i], "between") == 0;
  }
  mkdir("ckpt", 0777);
  mkdir("ckpt/step_1", 0777);
  put("ckpt/step_1/base", "base");
  for (int kind = 0; kind < KINDS; kind++) {
    char path[64];
    snprintf(path, sizeof path, "ckpt/step_1/%s", kinds[kind]);
    put(path, "old");
  }
  if (before) sim_calm(150, 1000);
  act(between);
  sim_calm(150, 1000);
  for (int kind = 0; kind < KINDS; kind++) {
    char path[64];
    snprintf(path, sizeof path, "ckpt/step_1/%s", kinds[kind]);
    look(path);
  }
  MPI_Finalize();
  return 0;
}
