/* MPI_THREAD_MULTIPLE: two threads run collectives on two duplicates of the world, in an order that
 * differs from rank to rank; a counter over both would differ, too. */
#include <pthread.h>
#include "sim.h"

static void *other(void *arg) {
  MPI_Comm comm = *(MPI_Comm *)arg;
  int rank;
  MPI_Comm_rank(comm, &rank);
  for (int i = 0; i < 3000; i++) {
    int x = i, y;
    if (i % 500 == rank * 100) usleep(2000);
    MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_MAX, comm);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int granted;
  MPI_Comm a, b;
  pthread_t thread;
  sim_t sim;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  if (granted != MPI_THREAD_MULTIPLE) { printf("no threads\n"); MPI_Finalize(); return 0; }
  MPI_Comm_dup(MPI_COMM_WORLD, &a);
  MPI_Comm_dup(MPI_COMM_WORLD, &b);
  sim_init(&sim);
  pthread_create(&thread, NULL, other, &b);
  for (int s = 0; s < 20; s++) {
    sim_step(&sim, a);
    if (sim.step % 5 == 0) { sim_checkpoint(&sim); MPI_Barrier(MPI_COMM_WORLD); }
  }
  pthread_join(thread, NULL);
  sim_finish(&sim, a);
  MPI_Finalize();
  return 0;
}
