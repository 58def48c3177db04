/* A handler writes a checkpoint, anew each time, by system calls that a handler may make: on rank
 * 0 while it waits in a collective call for the others, which come when that has happened.
 * argv[1] rounds; argv[2] "exit" or "_exit": the last one ends each rank in its handler; "malloc":
 * the handlers interrupt malloc and free instead, in each rank. SIGUSR1 is not for us: MPICH's
 * launcher sends it, to any thread, when another rank has ended. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "sim.h"

enum { BYTES = 64 << 10, RUNS = 3, INTERRUPTIONS = 10 };
static char path[64], other[64], data[BYTES];
static volatile int *runs, written, last;
static const char *end = "";

static void arm(int microseconds) {
  struct itimerval once = {{0, 0}, {0, microseconds}};
  setitimer(ITIMER_REAL, &once, NULL);
}

static void write_now(int number) {
  int code = errno, next = written + 1;
  for (size_t i = 0; i < BYTES / sizeof next; i++) ((int *)data)[i] = last ? -1 : next;
  const char *to = next % 3 ? path : other;
  int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || write(fd, data, BYTES / 2) != BYTES / 2) abort();
  if (write(fd, data, BYTES / 2) != BYTES / 2 || close(fd) != 0) abort();
  if (to == other && rename(other, path) != 0) abort();
  written = next;
  ++*runs;
  if (last && !strcmp(end, "exit")) exit(0);
  if (last && !strcmp(end, "_exit")) _exit(0);
  if (number == SIGALRM && strcmp(end, "malloc")) arm(5000);
  errno = code;
}

/* What the program sees of it. */
static void check(void) {
  int found = 0;
  FILE *file = fopen(path, "r");
  if (!file || fread(&found, sizeof found, 1, file) != 1 || found != written) {
    fprintf(stderr, "%s: %d is read and %d was written\n", path, found, written);
    exit(4);
  }
  fclose(file);
}

/* Blocks of this size are not kept by the thread: malloc and free take the lock of all. */
static void interrupt_malloc(void) {
  for (int i = 0; i < INTERRUPTIONS; i++) {
    void *volatile block;
    int before = written;
    arm(1000);
    while (written == before) {
      block = malloc(5000);
      free(block);
    }
    check();
  }
}

static void share(int rank) {
  int fd;
  if (rank == 0 && ((fd = open("shared", O_RDWR | O_CREAT, 0666)) < 0 || ftruncate(fd, 4096)))
    sim_fail("cannot make", "shared");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) fd = open("shared", O_RDWR);
  runs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (runs == MAP_FAILED) sim_fail("cannot map", "shared");
}

int main(int argc, char **argv) {
  sim_t sim;
  int rounds = argc > 1 ? atoi(argv[1]) : 3;
  if (argc > 2) end = argv[2];
  sigset_t timer;
  sigemptyset(&timer);
  sigaddset(&timer, SIGALRM);
  sigprocmask(SIG_BLOCK, &timer, NULL); /* in the threads of MPI */
  MPI_Init(&argc, &argv);
  sigprocmask(SIG_UNBLOCK, &timer, NULL);
  sim_init(&sim);
  share(sim.rank);
  snprintf(path, sizeof path, "ckpt/now/rank_%d.now", sim.rank);
  snprintf(other, sizeof other, "ckpt/now/rank_%d.now.new", sim.rank);
  mkdir("ckpt", 0777);
  mkdir("ckpt/now", 0777);
  signal(SIGALRM, write_now);
  signal(SIGUSR2, write_now);
  for (int round = 1; round <= rounds; round++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    raise(SIGUSR2);
    if (!strcmp(end, "malloc")) {
      interrupt_malloc();
      continue;
    }
    last = round == rounds && *end;
    if (sim.rank == 0) *runs = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (sim.rank == 0) arm(5000);
    while (sim.rank != 0 && *runs < (last ? 1 : RUNS)) usleep(1000);
    if (sim.rank != 0 && last) raise(SIGUSR2);
    MPI_Barrier(MPI_COMM_WORLD);
    arm(0);
    check();
    sim_calm(5, 2000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
