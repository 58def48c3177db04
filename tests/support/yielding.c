/* For MPICH with more ranks than cores: UCX below it polls without ever yielding, so that a rank
 * waits whole time slices for another's message. Preloaded behind everything else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

typedef unsigned progress_t(void *worker);

unsigned ucp_worker_progress(void *worker) {
  static progress_t *real;
  if (!real) real = (progress_t *)dlsym(RTLD_NEXT, "ucp_worker_progress");
  if (!real) /* mpi4py loads MPI for itself alone */
    real = (progress_t *)dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD),
                               "ucp_worker_progress");
  unsigned done = real(worker);
  if (done == 0) sched_yield();
  return done;
}
