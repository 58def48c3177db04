/* Each checkpoint has a large file of each rank, longer or shorter than the last one, written from
 * start to end; a restart checks every byte. argv[1] steps, argv[2] every; argv[3] what happens in
 * the middle of each file: nothing, fork, look (the other ranks look at it after a barrier), pause
 * (from step argv[5] on rank 0 makes the file argv[6], and waits for its end); argv[4] a file to
 * which the numbers of the files are appended. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sim.h"

enum { MIB = 1 << 20 };

static size_t size_at(int step) {
  static const int tenths[] = {100, 100, 130, 90, 90, 170, 85, 110};
  return (size_t)tenths[step % 8] * MIB / 10 + 7u * (unsigned)step;
}

static char *content(const sim_t *sim, int step) {
  size_t size = size_at(step);
  char *bytes = malloc(size);
  uint64_t state = (uint64_t)step * 1000003u + (uint64_t)sim->rank + 1;
  for (size_t i = 0; i < size; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = (char)(state >> 56);
  }
  return bytes;
}

static void path_of(char *path, size_t bytes, int rank, int step) {
  snprintf(path, bytes, "ckpt/step_%d/large_%d.dat", step, rank);
}

static void write_all(int fd, const char *bytes, size_t count, const char *path) {
  for (size_t done = 0; done < count; done += MIB) {
    size_t now = count - done < MIB ? count - done : MIB;
    if (write(fd, bytes + done, now) != (ssize_t)now) sim_fail("cannot write", path);
  }
}

static void look(const sim_t *sim, size_t size) {
  char path[256];
  struct stat found;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int rank = 0; rank < sim->size; rank++) {
    path_of(path, sizeof path, rank, sim->step);
    if (stat(path, &found) != 0 || (size_t)found.st_size != size) sim_fail("other size", path);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void between(const sim_t *sim, char **argv, int fd, const char *path, size_t size) {
  int status;
  if (strcmp(argv[3], "fork") == 0) {
    pid_t child = fork();
    struct stat found;
    if (child == 0) _exit(fstat(fd, &found) == 0 && (size_t)found.st_size == size ? 0 : 1);
    if (waitpid(child, &status, 0) != child || status != 0) sim_fail("child", path);
  }
  if (strcmp(argv[3], "look") == 0) look(sim, size);
  if (strcmp(argv[3], "pause") == 0 && sim->rank == 0 && sim->step >= atoi(argv[5])) {
    /* By calls that no library sees: any other would have to find the file as it is. */
    syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, argv[6], O_CREAT | O_WRONLY, 0666));
    while (syscall(SYS_faccessat, AT_FDCWD, argv[6], F_OK) == 0) usleep(10000);
  }
}

static void write_large(const sim_t *sim, char **argv) {
  char path[256], *bytes = content(sim, sim->step);
  size_t size = size_at(sim->step), half = size / 3 * 2;
  struct stat found;
  path_of(path, sizeof path, sim->rank, sim->step);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) sim_fail("cannot create", path);
  write_all(fd, bytes, half, path);
  between(sim, argv, fd, path, half);
  write_all(fd, bytes + half, size - half, path);
  if (fstat(fd, &found) != 0 || (size_t)found.st_size != size || close(fd) != 0)
    sim_fail("wrong size", path);
  free(bytes);
  FILE *numbers = fopen(argv[4], "a");
  if (!numbers || fprintf(numbers, "%d %lu\n", sim->rank, (unsigned long)found.st_ino) < 0)
    sim_fail("cannot write", argv[4]);
  fclose(numbers);
}

static void check_large(const sim_t *sim) {
  char path[256], *want = content(sim, sim->step);
  size_t size = size_at(sim->step);
  char *found = malloc(size + 1);
  path_of(path, sizeof path, sim->rank, sim->step);
  int fd = open(path, O_RDONLY);
  size_t done = 0;
  ssize_t now = 1;
  while (fd >= 0 && now > 0 && done <= size) {
    now = read(fd, found + done, size + 1 - done);
    if (now > 0) done += (size_t)now;
  }
  if (fd < 0 || done != size || memcmp(found, want, size) != 0) sim_fail("wrong content", path);
  close(fd);
  free(found);
  free(want);
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]), every = atoi(argv[2]);
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim_restart(&sim, steps, every, MPI_COMM_WORLD);
  if (sim.step > 0) check_large(&sim);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % every == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      sim_checkpoint(&sim);
      write_large(&sim, argv);
      sim_calm(200, 1000);
      check_large(&sim);
    }
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
