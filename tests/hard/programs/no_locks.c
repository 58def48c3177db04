/* A file system without locks: flock is refused. */
#include <errno.h>

int flock(int fd, int operation) {
  (void)fd, (void)operation;
  errno = ENOSYS;
  return -1;
}
