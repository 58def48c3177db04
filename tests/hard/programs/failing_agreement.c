/* Makes the engine's agreements fail from number $FAIL_AT on, as MPI does with a dead peer: the
 * communicator's error handler is called, an error is returned. Each failure appends a line to the
 * file $FAILURES. Nobody else calls PMPI_Allreduce by that name; an agreement has 14 words. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int PMPI_Allreduce(const void *from, void *into, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm) {
  static int agreements;
  int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
  if (count != 14 || ++agreements < atoi(getenv("FAIL_AT"))) {
    *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Allreduce");
    return next(from, into, count, type, op, comm);
  }
  int fd = open(getenv("FAILURES"), O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (write(fd, "failed\n", 7) != 7) abort();
  close(fd);
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}
