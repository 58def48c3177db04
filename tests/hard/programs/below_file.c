/* What each call says that takes a checkpoint file for a directory; in a child, too. */
#define _GNU_SOURCE
#include "sim.h"
#include <dirent.h>
#include <sys/statvfs.h>

static void say(const char *what, long result) {
  printf("%s: %s\n", what, result >= 0 ? "ok" : strerrorname_np(errno));
}

static void opens(const char *inside) {
  say("open", open(inside, O_RDONLY));
  say("create", open(inside, O_CREAT | O_WRONLY, 0644));
  say("fopen", fopen(inside, "w") ? 0 : -1);
  say("opendir", opendir(inside) ? 0 : -1);
  say("opendir of the file", opendir("ckpt/step_1/rank_0.dat") ? 0 : -1);
}

static void asks(const char *inside) {
  struct stat st;
  struct statvfs fs;
  char text[64];
  say("stat", stat(inside, &st));
  say("lstat", lstat(inside, &st));
  say("access", access(inside, F_OK));
  say("readlink", readlink(inside, text, sizeof text));
  say("realpath", realpath(inside, NULL) ? 0 : -1);
  say("statvfs", statvfs(inside, &fs));
  say("chdir", chdir(inside));
}

static void changes(const char *inside, const char *file) {
  say("truncate", truncate(inside, 0));
  say("chmod", chmod(inside, 0600));
  say("unlink", unlink(inside));
  say("rmdir", rmdir(inside));
  say("mkdir", mkdir(inside, 0755));
  say("rename into", rename(file, inside));
  say("rename of", rename(inside, "ckpt/other"));
  say("link into", link(file, inside));
  say("link to", link(inside, "ckpt/other"));
  say("symlink", symlink("x", inside));
}

int main(int argc, char **argv) {
  static const char *const inside[] = {"ckpt/step_1/rank_0.dat/x", "ckpt/step_1/rank_0.dat/x/y",
                                       "ckpt/step_1/rank_0.dat/../rank_0.dat",
                                       "ckpt/step_1/none/x", "ckpt/step_1/none/../rank_0.dat"};
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim.step = 1;
  sim_checkpoint(&sim);
  for (int round = 0; round < 2; round++) { // not sealed yet; sealed
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
      printf("%s\n", inside[i]);
      opens(inside[i]);
      asks(inside[i]);
      changes(inside[i], "ckpt/step_1/rank_0.dat");
    }
    fflush(stdout);
    if (system("cat ckpt/step_1/rank_0.dat/x 2>&1; ls ckpt/step_1") != 0) sim_fail("cannot", "run");
    sim_calm(100, 1000);
  }
  MPI_Finalize();
  return 0;
}
