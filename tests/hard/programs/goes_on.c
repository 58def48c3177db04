/* Checkpoints of one file that all ranks write, and a restart from the newest one that is whole,
 * with any number of ranks.
 *
 * usage: goes_on posix|mpi STEPS [AT WHERE PAUSE]  in step AT the first rank makes PAUSE, and all
 * wait until it is gone: in the `middle` of the file, when it is `closed`, after some collectives
 * that are `calm`, or in the middle before a rank reads what another one has written (`read`). */
#include "sim.h"

enum { BLOCKS = 8, BYTES = 192 << 10 };

static int rank, size;
static char data[BYTES], seen[BYTES], path[64];
static const char *pause_file, *where = "";

static void fill(int block, int step) {
  for (int i = 0; i < BYTES; i++) data[i] = (char)(i * 7 + i / 4096 + block * 31 + step * 13);
}

static void pause_at(const char *here) {
  if (strcmp(where, here) != 0) return;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) close(open(pause_file, O_CREAT | O_WRONLY, 0644));
  while (access(pause_file, F_OK) != 0) usleep(1000);
  while (access(pause_file, F_OK) == 0) usleep(1000);
}

static void by_posix(int step) {
  int fd = -1;
  if (rank == 0) fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0644);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank > 0) fd = open(path, O_RDWR);
  if (fd < 0) sim_fail("cannot open", path);
  for (int half = 0; half < 2; half++) {
    for (int block = rank; block < BLOCKS; block += size) {
      off_t begin = half * (BYTES / 2);
      fill(block, step);
      if (pwrite(fd, data + begin, BYTES / 2, block * (off_t)BYTES + begin) != BYTES / 2)
        sim_fail("cannot write", path);
    }
    if (half == 0) pause_at("middle");
    if (half == 0 && strcmp(where, "read") == 0) {
      pause_at("read");
      if (rank == 1 && pread(fd, seen, BYTES / 2, 5 * (off_t)BYTES) != BYTES / 2)
        sim_fail("cannot read", path);
    }
  }
  if (close(fd) != 0) sim_fail("cannot close", path);
}

static void by_mpi(int step) {
  MPI_File file;
  int failed = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                             &file);
  if (failed) sim_fail("cannot open", path);
  for (int block = rank; block < BLOCKS; block += size) {
    fill(block, step);
    failed |= MPI_File_write_at_all(file, block * (MPI_Offset)BYTES, data, BYTES, MPI_BYTE,
                                    MPI_STATUS_IGNORE);
  }
  pause_at("middle");
  if (failed || MPI_File_close(&file)) sim_fail("cannot write", path);
}

/* Tells whether this rank finds all of a step's file as it was written; -1: it is there, but not
 * so. */
static int is_whole(int step) {
  int whole = 1;
  snprintf(path, sizeof path, "ckpt/step_%d/all.dat", step);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  for (int block = 0; block < BLOCKS && whole == 1; block++) {
    fill(block, step);
    if (read(fd, seen, BYTES) != BYTES || memcmp(seen, data, BYTES) != 0) whole = -1;
  }
  close(fd);
  return whole;
}

int main(int argc, char **argv) {
  int steps = atoi(argv[2]), at = argc > 3 ? atoi(argv[3]) : 0, step = steps, all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (; step > 0; step--) {
    int mine = is_whole(step);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all < 0 && rank == 0) printf("damaged %d\n", step);
    if (all > 0) break;
  }
  if (rank == 0) printf("restart %d\n", step);
  fflush(stdout);
  for (step++; step <= steps; step++) {
    where = step == at ? argv[4] : "";
    pause_file = argc > 5 ? argv[5] : NULL;
    mkdir("ckpt", 0777);
    snprintf(path, sizeof path, "ckpt/step_%d", step);
    mkdir(path, 0777);
    strcat(path, "/all.dat");
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(argv[1], "posix") == 0) by_posix(step);
    else by_mpi(step);
    pause_at("closed");
    sim_calm(10, 20000);
    pause_at("calm");
  }
  MPI_Finalize();
  return 0;
}
