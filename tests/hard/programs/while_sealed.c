/* A rank that stands still where its first checkpoint gets its directory's final name: argv[1] is
 * there then. A thread opens another file of that checkpoint; argv[2] and argv[3] are made before
 * and after that. */
#include <pthread.h>

#include "sim.h"

static void touch(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT, 0666);
  if (fd < 0) sim_fail("cannot make", path);
  close(fd);
}

static volatile int over;

static void *work(void *of) {
  char **files = of;
  while (access(files[1], F_OK) != 0) usleep(1000);
  touch(files[2]);
  int fd = open("ckpt/step_1/late.dat", O_WRONLY | O_CREAT, 0666);
  if (fd < 0) sim_fail("cannot open", "late.dat");
  touch(files[3]);
  if (write(fd, "late\n", 5) != 5 || close(fd) != 0) sim_fail("cannot write", "late.dat");
  over = 1;
  return NULL;
}

int main(int argc, char **argv) {
  static sim_t sim;
  int granted, go_on = 1;
  pthread_t thread;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &granted);
  sim_init(&sim);
  if (sim.rank == 0) pthread_create(&thread, NULL, work, argv);
  sim.step = 1;
  sim_checkpoint(&sim);
  while (go_on) {
    int mine = sim.rank == 0 && !over;
    MPI_Allreduce(&mine, &go_on, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    usleep(1000);
  }
  if (sim.rank == 0) pthread_join(thread, NULL);
  sim_calm(20, 2000);
  MPI_Finalize();
  return 0;
}
