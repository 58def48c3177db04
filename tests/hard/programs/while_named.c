/* A rank whose flush is stopped right before it gives a file its name on the prefix: argv[1] is
 * there then. What a thread reads, and writes beside, does not wait; what it writes under that
 * name does, by a child, which writes on the prefix. argv[2] and argv[3] are made before and after
 * that. */
#include <pthread.h>

#include "sim.h"

static void touch(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT, 0666);
  if (fd < 0) sim_fail("cannot make", path);
  close(fd);
}

static sim_t sim;
static volatile int over;

static void *work(void *of) {
  char **files = of;
  sim_t copy = sim;
  struct stat about;
  while (access(files[1], F_OK) != 0) usleep(1000);
  printf("read %d\n", sim_read(&copy, 1));
  printf("size %d\n", stat("ckpt/step_1/rank_0.dat", &about) == 0);
  copy.step = 3;
  sim_checkpoint(&copy);
  touch(files[2]);
  printf("status %d\n", system("echo newer > ckpt/step_1/rank_0.dat"));
  fflush(stdout);
  touch(files[3]);
  over = 1;
  return NULL;
}

int main(int argc, char **argv) {
  int granted, go_on = 1;
  pthread_t thread;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &granted);
  sim_init(&sim);
  if (sim.rank == 0) pthread_create(&thread, NULL, work, argv);
  for (sim.step = 1; sim.step <= 2; sim.step++) {
    sim_checkpoint(&sim);
    sim_calm(20, 2000);
  }
  while (go_on) {
    int mine = sim.rank == 0 && !over;
    MPI_Allreduce(&mine, &go_on, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    usleep(1000);
  }
  if (sim.rank == 0) pthread_join(thread, NULL);
  MPI_Finalize();
  return 0;
}
