/* A thread is cancelled again and again while it writes a checkpoint file; the process lives on. */
#include <pthread.h>
#include "sim.h"

static void *writer(void *arg) {
  const sim_t *sim = arg;
  char path[256];
  sim_path(path, sizeof path, sim, 999);
  for (;;) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) continue;
    for (int i = 0; i < 50; i++)
      if (write(fd, sim, sizeof *sim) < 0) break;
    close(fd);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int granted;
  sim_t sim;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &granted);
  sim_init(&sim);
  sim_mkdir(&sim, 999);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 30; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, writer, &sim);
    usleep(1000 + 137 * i);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
  }
  for (int s = 0; s < 20; s++) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) sim_checkpoint(&sim);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
