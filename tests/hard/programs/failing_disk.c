/* Makes the call $FAIL_CALL (open, write, fsync or close) fail with $FAIL_ERRNO (a number; EIO),
 * once in a process, on the file whose path ends in $FAIL_PATH. Or each of these calls, on files
 * whose paths have one of the words of $FAIL_WORDS in them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails_at(const char *call, const char *path) {
  static int failed;
  char words[256], *rest;
  const char *wanted = getenv("FAIL_CALL"), *end = getenv("FAIL_PATH");
  const char *all = getenv("FAIL_WORDS"), *code = getenv("FAIL_ERRNO");
  if (wanted == NULL || strcmp(call, wanted) != 0) return 0;
  errno = code != NULL ? atoi(code) : EIO;
  snprintf(words, sizeof words, "%s", all != NULL ? all : "");
  for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
    if (strstr(path, word) != NULL) return 1;
  if (failed || end == NULL) return 0;
  size_t length = strlen(path), tail = strlen(end);
  return failed = length >= tail && strcmp(path + length - tail, end) == 0;
}

static int fails(const char *call, int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fails_at(call, path);
}

static int open_with(const char *name, const char *path, int flags, mode_t mode) {
  int (*next)(const char *, int, ...);
  *(void **)&next = dlsym(RTLD_NEXT, name);
  return fails_at("open", path) ? -1 : next(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_with("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_with("open64", path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t bytes) {
  ssize_t (*next)(int, const void *, size_t);
  *(void **)&next = dlsym(RTLD_NEXT, "write");
  if (!fails("write", fd)) return next(fd, data, bytes);
  /* As the kernel does it: a part may be there, the offset stays. */
  int code = errno;
  off_t at = lseek(fd, 0, SEEK_CUR);
  next(fd, data, bytes / 2);
  lseek(fd, at, SEEK_SET);
  errno = code;
  return -1;
}

int fsync(int fd) {
  int (*next)(int);
  *(void **)&next = dlsym(RTLD_NEXT, "fsync");
  return fails("fsync", fd) ? -1 : next(fd);
}

int close(int fd) {
  int (*next)(int);
  *(void **)&next = dlsym(RTLD_NEXT, "close");
  if (!fails("close", fd)) return next(fd);
  int code = errno;
  next(fd);
  errno = code;
  return -1;
}
