/* Counts what a rank looks up of the checkpoint files of others, and what it looks for in sealed
 * datasets that do not have it; tells both at its end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static atomic_int others, in_vain;

static int own_rank(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = getenv("PMI_RANK");
  return rank ? atoi(rank) : -1;
}

int statx(int dir, const char *path, int flags, unsigned mask, struct statx *found) {
  static int (*next)(int, const char *, int, unsigned, struct statx *);
  /* Rust asks with nothing whether there is such a call; the compiler is told that nobody does. */
  const char *volatile given = path;
  const char *name = given ? strstr(given, "/rank_") : NULL;
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "statx");
  if (name && own_rank() >= 0 && atoi(name + strlen("/rank_")) != own_rank()) others++;
  int result = next(dir, path, flags, mask, found);
  if (result < 0 && errno == ENOENT && name && strstr(given, "/scr.dataset.")) in_vain++;
  return result;
}

__attribute__((destructor)) static void tell(void) {
  if (own_rank() < 0) return;
  fprintf(stderr, "rank %d looked up %d of others\n", own_rank(), others);
  fprintf(stderr, "rank %d looked into sealed datasets %d times in vain\n", own_rank(), in_vain);
}
