/* Calls that name a file in unusual ways, or move its bytes by other means than write(2): each line
 * is what one call said. `a` and `b` stand for files that match the pattern. */
#define _GNU_SOURCE
#include "sim.h"
#include <dirent.h>
#include <ftw.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define A "ckpt/step_1/rank_0.dat"
#define B "ckpt/step_1/rank_1.dat"
#define NEW "ckpt/step_1/rank_2.dat"
#define PLAIN "ckpt/plain"

static void told(const char *what, long result) {
  if (result < 0) printf("%s: %s\n", what, strerrorname_np(errno));
  else printf("%s: %ld\n", what, result);
}
#define SAY(call) told(#call, (call) < 0 ? -1 : 0)
#define NUMBER(call) told(#call, call)

static void put(const char *name, const char *text) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) != 0) sim_fail("cannot write", name);
}

static void show(const char *name) {
  char text[64] = "";
  int fd = open(name, O_RDONLY);
  if (fd < 0) { told(name, -1); return; }
  if (read(fd, text, sizeof text - 1) < 0) told(name, -1);
  else printf("%s holds %s\n", name, text);
  close(fd);
}

static int opened(int fd) {
  if (fd >= 0) close(fd);
  return fd < 0 ? -1 : 0;
}

static void slashes(void) {
  struct stat st;
  SAY(stat(A "/", &st));
  SAY(lstat(A "/.", &st));
  SAY(access(A "/", F_OK));
  SAY(truncate(A "/", 1));
  SAY(opened(open(A "/", O_RDONLY)));
  SAY(opened(open(A "/", O_RDWR | O_CREAT, 0644)));
  SAY(opened(open(NEW "/", O_RDWR | O_CREAT, 0644)));
  SAY(opened(openat(AT_FDCWD, A "/.", O_RDONLY)));
  SAY(unlink(A "/"));
  SAY(unlinkat(AT_FDCWD, A "/", 0));
  SAY(remove(A "/"));
  SAY(rmdir(A "/"));
  SAY(rmdir(A));
  SAY(chdir(A));
  SAY(rename(A "/", NEW));
  SAY(rename(A, NEW "/"));
  SAY(rename(A, B "/"));
  SAY(link(A "/", NEW));
  SAY(link(A, NEW "/"));
  SAY(link(A, B "/"));
  SAY(symlink("rank_0.dat", B "/"));
  SAY(mkdir(A "/", 0755));
  SAY(mkdir("ckpt/made/", 0755));
  SAY(stat("ckpt/made/", &st));
  SAY(stat("ckpt/step_1/", &st));
  SAY(rename("ckpt/made/", "ckpt/named/"));
  SAY(rmdir("ckpt/named/."));
  SAY(rmdir("ckpt/named/"));
  show(A);
}

static void ranges(void) {
  char text[16] = "";
  off64_t from = 2, to = 3;
  int a = open(A, O_RDONLY), p = open(PLAIN, O_RDWR | O_CREAT | O_TRUNC, 0644);
  NUMBER(copy_file_range(a, NULL, p, NULL, 4, 0));
  NUMBER(copy_file_range(a, &from, p, &to, 3, 0));
  NUMBER(from);
  NUMBER(to);
  NUMBER(lseek(a, 0, SEEK_CUR));
  NUMBER(lseek(p, 0, SEEK_CUR));
  NUMBER(copy_file_range(a, NULL, p, NULL, 1000, 0));
  NUMBER(copy_file_range(a, NULL, p, NULL, 1000, 0));
  NUMBER(copy_file_range(p, NULL, a, NULL, 10, 0));
  close(a);
  a = open(NEW, O_RDWR | O_CREAT | O_TRUNC, 0644);
  from = 1;
  NUMBER(copy_file_range(p, &from, a, NULL, 5, 0));
  NUMBER(pread(a, text, 5, 0));
  puts(text);
  close(a);
  close(p);
  show(PLAIN);
  SAY(unlink(NEW));
}

static void nameless(void) {
  char name[64];
  int fd = open("ckpt/step_1", O_TMPFILE | O_RDWR, 0644);
  if (fd < 0 || write(fd, "nameless", 8) != 8) { puts("no O_TMPFILE"); return; }
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  SAY(linkat(AT_FDCWD, name, AT_FDCWD, B, AT_SYMLINK_FOLLOW));
  SAY(linkat(AT_FDCWD, name, AT_FDCWD, NEW, AT_SYMLINK_FOLLOW));
  SAY(linkat(fd, "", AT_FDCWD, A, AT_EMPTY_PATH));
  close(fd);
  show(NEW);
  show(B);
  SAY(unlink(NEW));
}

static int seen;
static int visit(const char *path, const struct stat *s, int what, struct FTW *where) {
  (void)path, (void)s, (void)where;
  seen += what == FTW_F;
  return 0;
}

static void others(void) {
  int watch = inotify_init();
  SAY(nftw("ckpt", visit, 8, FTW_MOUNT | FTW_PHYS));
  NUMBER(seen);
  NUMBER(pathconf(A, _PC_NAME_MAX));
  SAY(ftok(A, 1));
  SAY(inotify_add_watch(watch, A, IN_CLOSE));
  close(watch);
}

/* Changes of a complete checkpoint through its descriptor's other names. */
static void reopened(void) {
  char name[64];
  FILE *f = fopen(A, "r+");
  if (!f) sim_fail("cannot open", A);
  f = freopen(NULL, "r+", f);
  told("freopen", f ? fputs("changed", f) : -1);
  if (f) told("fclose", fclose(f));
  show(A);
  int fd = open(B, O_RDWR);
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  int twin = open(name, O_WRONLY);
  told("twin", write(twin, "TWIN", 4));
  SAY(close(twin));
  close(fd);
  show(B);
  fd = open(B, O_RDONLY);
  snprintf(name, sizeof name, "/dev/fd/%d", fd);
  twin = open(name, O_RDWR);
  told("second twin", write(twin, "twin2", 5));
  SAY(close(twin));
  close(fd);
  show(B);
  fd = open(A, O_RDONLY);
  snprintf(name, sizeof name, "/dev/fd/%d", fd);
  f = fopen(name, "r+");
  told("stream", f ? fputs("by stream", f) : -1);
  if (f) told("fclose", fclose(f));
  show(A);
  told("truncate", truncate(name, 5));
  close(fd);
  show(A);
}

static void agree(void) {
  sim_calm(20, 10000);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  mkdir("ckpt", 0777);
  mkdir("ckpt/step_1", 0777);
  put(A, "abcdefghij");
  put(B, "0123456789");
  for (int sealed = 0; sealed < 2; sealed++) {
    slashes();
    ranges();
    nameless();
    others();
    agree();
  }
  reopened();
  MPI_Finalize();
  return 0;
}
