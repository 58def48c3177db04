/* Checkpoints of files that all ranks write, each its own bytes; in one of them something else is
 * done to each file, by which it is called.
 *
 * usage: surprises STEPS AT PAUSE WAY...  each step writes ckpt/step_<step>/<way>.dat for each way;
 * the surprise is in step AT; at the end the first rank makes PAUSE, and all wait until it is gone.
 * A way that begins with "mpi-" writes by MPI-IO. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 128 << 10, HALF = BYTES / 2 };

static int rank, size, step, surprised;
static const char *way;
static char data[2 * BYTES], seen[2 * BYTES], path[128], twin[160];
static MPI_Status status;

static void failed(const char *what) {
  fprintf(stderr, "rank %d, step %d, %s: %s failed: %m\n", rank, step, way, what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}
#define IS(call) ((call) ? (void)0 : failed(#call))
#define OK(call) IS((call) == MPI_SUCCESS)

static int is(const char *wanted) { return surprised && strcmp(way, wanted) == 0; }
static void together(void) { MPI_Barrier(MPI_COMM_WORLD); }
static off_t own(void) { return rank * (off_t)BYTES; }
static char letter(int of) { return (char)('a' + (of + step) % 26); }

/* What was read is what that rank has written. */
static void expect(int of, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (seen[i] == letter(of)) continue;
    printf("%s: byte %zu of rank %d is %d\n", way, i, of, seen[i]);
    return;
  }
  printf("%s: rank %d reads rank %d\n", way, rank, of);
}

static void tell_size(const char *how, off_t found) {
  printf("%s: %s on rank %d: %lld\n", way, how, rank, (long long)found);
}

static void names_in_step(void) {
  char dir[32], names[1024] = "";
  struct dirent **found;
  snprintf(dir, sizeof dir, "ckpt/step_%d", step);
  int count = scandir(dir, &found, NULL, alphasort);
  for (int i = 0; i < count; i++)
    if (strstr(found[i]->d_name, way)) strcat(strcat(names, " "), found[i]->d_name);
  printf("%s: in the directory:%s\n", way, names);
}

/* Half of each rank's bytes are written; all have passed a collective since. */
static void in_the_middle(int *fd) {
  struct stat found;
  if (is("pread") && rank == 5) {
    IS(pread(*fd, seen, HALF, 1 * BYTES) == HALF);
    expect(1, HALF);
  } else if (is("read") && rank == 2) {
    IS(lseek(*fd, 6 * BYTES, SEEK_SET) == 6 * BYTES && read(*fd, seen, HALF) == HALF);
    expect(6, HALF);
  } else if (is("sizes")) {
    IS(fstat(*fd, &found) == 0);
    tell_size("fstat", found.st_size);
    tell_size("lseek", lseek(*fd, 0, SEEK_END));
    together();
  } else if (is("stat")) {
    IS(stat(path, &found) == 0);
    if (rank == 3) tell_size("stat", found.st_size);
    if (rank == 3) names_in_step();
    together();
  } else if (is("reader") && rank == 6) {
    int other = open(path, O_RDONLY);
    IS(other >= 0 && pread(other, seen, HALF, 3 * BYTES) == HALF && close(other) == 0);
    expect(3, HALF);
  } else if (is("shorter")) {
    if (rank == 1) IS(ftruncate(*fd, 3 * BYTES) == 0);
    together();
  } else if (is("longer")) {
    if (rank == 6) IS(ftruncate(*fd, 9 * BYTES) == 0);
    together();
    IS(fstat(*fd, &found) == 0);
    tell_size("fstat", found.st_size);
  } else if (is("allocated")) {
    if (rank == 6) IS(posix_fallocate(*fd, 0, 9 * BYTES) == 0);
    together();
  } else if (is("unlinked") || is("unlinked-open")) {
    if (is("unlinked")) close(*fd);
    together();
    if (rank == 0) IS(unlink(path) == 0);
    if (is("unlinked-open")) close(*fd);
    if (rank == 0) IS((*fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644)) >= 0);
    together();
    if (rank > 0) IS((*fd = open(path, O_RDWR)) >= 0);
    IS(pwrite(*fd, data, HALF, own()) == HALF);
  } else if (is("conflict") && (rank == 2 || rank == 5)) {
    IS(pwrite(*fd, data, 1000, 8 * BYTES) == 1000);
  } else if (is("rewritten")) { /* later wins, on another node */
    if (rank == 7) IS(pwrite(*fd, data, HALF, 0) == HALF);
    together();
    if (rank == 1) IS(pread(*fd, seen, HALF, 0) == HALF);
    if (rank == 1) expect(7, HALF);
  } else if (is("stopped") && rank == 2) {
    pid_t own = getpid();
    if (fork() == 0) _exit(sleep(5) + kill(own, SIGCONT));
    raise(SIGSTOP);
    wait(NULL);
  } else if (is("stopped") && rank == 4) {
    sleep(1);
    IS(pread(*fd, seen, HALF, 1 * BYTES) == HALF);
    expect(1, HALF);
  } else if (is("busy") && rank == 5) { /* while another rank computes */
    IS(pread(*fd, seen, HALF, 1 * BYTES) == HALF);
    expect(1, HALF);
  } else if (is("busy") && rank == 2) {
    for (volatile unsigned long i = 0; i < 2000000000; i++) {}
  } else if (is("large") && rank == 5) { /* more than there is room for on its node */
    for (off_t at = 8 * BYTES; at < 80 * BYTES; at += HALF) IS(pwrite(*fd, data, HALF, at) == HALF);
  } else if (is("asked") && rank == 1) { /* a message, and no collective */
    IS(pwrite(*fd, data, 1000, 8 * BYTES) == 1000);
    MPI_Send(&rank, 1, MPI_INT, 6, 0, MPI_COMM_WORLD);
  } else if (is("asked") && rank == 6) {
    int token;
    MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &status);
    int other = open(path, O_RDONLY);
    IS(other >= 0 && pread(other, seen, 1000, 8 * BYTES) == 1000 && close(other) == 0);
    expect(1, 1000);
  }
}

/* The other half of this rank's bytes, in its own way. Nobody passes a collective before. */
static void second_half(int fd) {
  const off_t at = own() + HALF;
  if (is("forked-reader") && rank == 4) {
    int ended;
    pid_t child = fork();
    if (child == 0) {
      IS(pread(fd, seen, HALF, 1 * BYTES) == HALF);
      expect(1, HALF);
      fflush(stdout);
      _exit(0);
    }
    IS(child > 0 && waitpid(child, &ended, 0) == child && ended == 0);
  }
  if (is("mapped") && rank % 4 == 2) {
    char *map = mmap(NULL, HALF, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    IS(map != MAP_FAILED);
    memcpy(map, data, HALF);
    IS(munmap(map, HALF) == 0);
  } else if (is("stream") && rank == 2) {
    FILE *stream = fopen(path, "r+");
    IS(stream && fseek(stream, at, SEEK_SET) == 0 && fwrite(data, 1, HALF, stream) == HALF);
    IS(fclose(stream) == 0);
  } else if (is("forked") && rank == 4) {
    int ended;
    pid_t child = fork();
    if (child == 0) _exit(pwrite(fd, data, HALF, at) != HALF);
    IS(child > 0 && waitpid(child, &ended, 0) == child && ended == 0);
  } else {
    IS(pwrite(fd, data, HALF, at) == HALF);
  }
}

static void at_the_end(int fd) {
  if (is("append")) {
    together();
    if (rank == 2) {
      int other = open(path, O_WRONLY | O_APPEND);
      IS(other >= 0 && write(other, data, 100) == 100 && close(other) == 0);
    }
    together();
  } else if (is("closed-reader")) {
    int token;
    if (rank == 1) {
      IS(pwrite(fd, data, 1000, 8 * BYTES) == 1000);
      MPI_Send(&rank, 1, MPI_INT, 4, 0, MPI_COMM_WORLD);
    } else if (rank == 4) {
      MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &status);
      IS(pread(fd, seen, 1000, 8 * BYTES) == 1000);
      expect(1, 1000);
    }
  }
}

static void by_posix(void) {
  int fd = -1;
  const char *name = strcmp(way, "renamed") ? path : twin;
  if (rank == 0) IS((fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644)) >= 0);
  together();
  if (rank > 0) IS((fd = open(name, O_RDWR)) >= 0);
  IS(pwrite(fd, data, HALF, own()) == HALF);
  together();
  in_the_middle(&fd);
  second_half(fd);
  at_the_end(fd);
  IS(close(fd) == 0);
  if (strcmp(way, "renamed") == 0) {
    together();
    if (rank == 0) IS(rename(twin, path) == 0);
  }
}

static void by_mpi(void) {
  MPI_File file;
  MPI_Offset found;
  if (is("mpi-deleted")) {
    if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
    together();
  }
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  OK(MPI_File_write_at(file, own(), data, HALF, MPI_BYTE, &status));
  together();
  if (is("mpi-read")) {
    MPI_File_sync(file);
    if (rank == 5) OK(MPI_File_read_at(file, BYTES, seen, HALF, MPI_BYTE, &status));
    if (rank == 5) expect(1, HALF);
  } else if (is("mpi-read-all")) {
    int of = (rank + 3) % size;
    MPI_File_sync(file);
    OK(MPI_File_read_at_all(file, of * (MPI_Offset)BYTES, seen, HALF, MPI_BYTE, &status));
    expect(of, HALF);
  } else if (is("mpi-sizes")) {
    OK(MPI_File_get_size(file, &found));
    tell_size("MPI_File_get_size", found);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &found));
    tell_size("MPI_File_seek", found);
  } else if (is("mpi-shorter")) {
    OK(MPI_File_set_size(file, 3 * BYTES));
  } else if (is("mpi-longer")) {
    OK(MPI_File_set_size(file, 9 * BYTES));
  } else if (is("mpi-allocated")) {
    OK(MPI_File_preallocate(file, 9 * BYTES));
  } else if (is("mpi-deleted-open")) {
    MPI_File older = file;
    together();
    if (rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
    together();
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at(file, own(), data, HALF, MPI_BYTE, &status));
    OK(MPI_File_close(&older));
  }
  OK(MPI_File_write_at_all(file, own() + HALF, data, HALF, MPI_BYTE, &status));
  OK(MPI_File_close(&file));
}

/* Two files of one checkpoint are open at a time, and two ranks need at the same time what is on
 * other nodes. */
static void two(void) {
  int fds[2] = {-1, -1};
  const char *names[] = {path, twin};
  for (int i = 0; i < 2; i++) {
    if (rank == i) IS((fds[i] = open(names[i], O_CREAT | O_RDWR | O_TRUNC, 0644)) >= 0);
  }
  together();
  for (int i = 0; i < 2; i++) {
    if (rank != i) IS((fds[i] = open(names[i], O_RDWR)) >= 0);
    IS(pwrite(fds[i], data, HALF, own()) == HALF);
  }
  together();
  for (int i = 0; i < 2; i++) {
    if (!surprised || rank % 4 != 2 * i) continue;
    IS(pread(fds[i], seen, HALF, ((rank + 3) % size) * (off_t)BYTES) == HALF);
    expect((rank + 3) % size, HALF);
  }
  for (int i = 0; i < 2; i++) {
    IS(pwrite(fds[i], data, HALF, own() + HALF) == HALF && close(fds[i]) == 0);
  }
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (step = 1; step <= atoi(argv[1]); step++) {
    memset(data, letter(rank), sizeof data);
    snprintf(path, sizeof path, "ckpt/step_%d", step);
    mkdir("ckpt", 0777);
    mkdir(path, 0777);
    surprised = step == atoi(argv[2]);
    for (int i = 4; i < argc; i++) {
      way = argv[i];
      snprintf(path, sizeof path, "ckpt/step_%d/%s.dat", step, way);
      snprintf(twin, sizeof twin, "%s.tmp", path);
      together();
      if (strncmp(way, "mpi-", 4) == 0) by_mpi();
      else if (strcmp(way, "two") == 0) two();
      else by_posix();
    }
    for (int i = 0; i < 10; i++) {
      together();
      usleep(20000);
    }
  }
  if (rank == 0) {
    close(open(argv[3], O_CREAT | O_WRONLY, 0644));
    while (access(argv[3], F_OK) == 0) usleep(10000);
  }
  together();
  MPI_Finalize();
  return 0;
}
