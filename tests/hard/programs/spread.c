/* Files whose content follows from step, rank and number alone, so that another program can say
 * what has to be in them: argv[1] checkpoints; argv[2] files a rank (0: rank 1 none, the others one
 * to three, the second of them empty); argv[3] a file: made by rank 0 after the last checkpoint,
 * all wait until it is removed. */
#include "sim.h"

static void put(int step, int rank, int number, size_t bytes) {
  char path[256];
  uint64_t state = 1u + (uint64_t)step * 1000000u + (uint64_t)rank * 10000u + (uint64_t)number;
  unsigned char *data = malloc(bytes + 1);
  for (size_t i = 0; i < bytes; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    data[i] = (unsigned char)(state >> 56);
  }
  snprintf(path, sizeof path, "ckpt/step_%d/part_%d_of_%d", step, number, rank);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0640);
  if (fd < 0) sim_fail("cannot open", path);
  if (write(fd, data, bytes) != (ssize_t)bytes) sim_fail("cannot write", path);
  if (close(fd) != 0) sim_fail("cannot close", path);
  free(data);
}

/* Synchronising calls during which a seal can happen: for a fifth of a second, and not few. Of a
 * fixed number each would cost a time slice where more ranks than cores spin. */
static void calm(void) {
  double end = MPI_Wtime() + 0.2;
  for (int i = 0, over = 0; i < 20 || !over; i++) {
    int mine = MPI_Wtime() > end;
    MPI_Allreduce(&mine, &over, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    usleep(1000);
  }
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), many = atoi(argv[2]);
  struct stat st;
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  for (int step = 1; step <= steps; step++) {
    int files = many ? many : sim.rank == 1 ? 0 : sim.rank % 3 + 1;
    sim_mkdir(&sim, step);
    for (int i = 0; i < files; i++) {
      size_t bytes = many ? 16 : i == 1 ? 0 : 20000u + 7001u * i + 1013u * sim.rank + 17u * step;
      put(step, sim.rank, i, bytes);
    }
    calm();
  }
  if (sim.rank == 0) {
    int fd = open(argv[3], O_CREAT | O_WRONLY, 0666);
    if (fd >= 0) close(fd);
    while (stat(argv[3], &st) == 0) usleep(10000);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
