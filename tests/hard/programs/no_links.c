/* A file system without hard links: link and linkat are refused. */
#include <errno.h>

int link(const char *from, const char *to) {
  (void)from, (void)to;
  errno = EPERM;
  return -1;
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  (void)from_dir, (void)from, (void)to_dir, (void)to, (void)flags;
  errno = EPERM;
  return -1;
}
