/* Makes the engine's agreements fail from number $FAIL_AT on, as MPI does with a dead peer: the
 * communicator's error handler is called, an error is returned. Each failure appends a line to the
 * file $FAILURES. The engine asks the loader for MPI's own PMPI_Allreduce, and gets this one; an
 * agreement has 15 words. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int allreduce_fn(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef void *dlsym_fn(void *, const char *);
static allreduce_fn *own;

static int failing(const void *from, void *into, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm) {
  static int agreements;
  if (count != 15 || ++agreements < atoi(getenv("FAIL_AT")))
    return own(from, into, count, type, op, comm);
  int fd = open(getenv("FAILURES"), O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (write(fd, "failed\n", 7) != 7) abort();
  close(fd);
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

/* Jumps to the real one, which takes its caller for who asks for the next one. */
__attribute__((optimize("O2"))) void *dlsym(void *handle, const char *name) {
  static dlsym_fn *real;
  if (!real) *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (handle == RTLD_NEXT || strcmp(name, "PMPI_Allreduce")) return real(handle, name);
  *(void **)&own = real(handle, name);
  return own ? (void *)failing : NULL;
}
