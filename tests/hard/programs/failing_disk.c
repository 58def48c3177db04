/* Makes the call $FAIL_CALL (write, fsync or close) fail with EIO, once in a process, on the file
 * whose path ends in $FAIL_PATH; a failing write has written half. Or each of these calls, on files
 * whose paths have one of the words of $FAIL_WORDS in them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails_always(const char *call, int fd) {
  char link[64], path[4096], words[256], *rest;
  const char *wanted = getenv("FAIL_CALL"), *all = getenv("FAIL_WORDS");
  if (wanted == NULL || all == NULL || strcmp(call, wanted) != 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  snprintf(words, sizeof words, "%s", all);
  for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
    if (strstr(path, word) != NULL) return 1;
  return 0;
}

static int fails(const char *call, int fd) {
  static int failed;
  char link[64], path[4096];
  const char *wanted = getenv("FAIL_CALL"), *end = getenv("FAIL_PATH");
  if (fails_always(call, fd)) return 1;
  if (failed || wanted == NULL || end == NULL || strcmp(call, wanted) != 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path);
  ssize_t tail = (ssize_t)strlen(end);
  return failed = length >= tail && memcmp(path + length - tail, end, tail) == 0;
}

ssize_t write(int fd, const void *data, size_t bytes) {
  ssize_t (*next)(int, const void *, size_t);
  *(void **)&next = dlsym(RTLD_NEXT, "write");
  if (!fails("write", fd)) return next(fd, data, bytes);
  next(fd, data, bytes / 2);
  errno = EIO;
  return -1;
}

int fsync(int fd) {
  int (*next)(int);
  *(void **)&next = dlsym(RTLD_NEXT, "fsync");
  if (!fails("fsync", fd)) return next(fd);
  errno = EIO;
  return -1;
}

int close(int fd) {
  int (*next)(int);
  *(void **)&next = dlsym(RTLD_NEXT, "close");
  if (!fails("close", fd)) return next(fd);
  next(fd);
  errno = EIO;
  return -1;
}
