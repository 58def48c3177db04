/* Rank 0 writes a checkpoint file anew several times, so that it is known when one is complete.
 * Then all ranks change it in place, a part each. argv[1]: at-once, or baton: one after another,
 * from the last rank to the first in back; overtaking: rank 0 when another one has stopped in the
 * middle of its first write, which makes the file argv[2]; anew: rank 1 writes the file anew
 * while rank 0 has changed it and has it open; unagreed: rank 1 changes it while rank 0 has
 * changed it and has it open, and no collective comes between; past: rank 0 changes it, and once
 * the file argv[2] is there, since it has stopped, rank 1 does, and writes files of its own, and
 * then makes argv[3]; argv[2] of unagreed, if there is one, is a
 * file that fills the store of rank 0 before, so that it has no room for what comes behind the
 * parts. */
#include "sim.h"
#include <sys/syscall.h>

static const char *const name = "ckpt/state";
static const char rest[1 << 20];

/* Where the file lies, if it is in the cache: readlink(2) would tell the program's own name. */
static int is_complete(void) {
  char link[64], text[4096];
  int fd = open(name, O_RDONLY);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t count = syscall(SYS_readlinkat, AT_FDCWD, link, text, sizeof text - 1);
  text[count < 0 ? 0 : count] = 0;
  close(fd);
  return strstr(text, "/scr.dataset.") != NULL;
}

static void write_part(int fd, int part, const char *bytes) {
  if (pwrite(fd, bytes, 8, 8 * part) != 8) sim_fail("cannot write", name);
}

static int is(const char *manner, const char *name) { return strcmp(manner, name) == 0; }

static int open_part(void) {
  int fd = open(name, O_WRONLY);
  if (fd < 0) sim_fail("cannot open", name);
  return fd;
}

static void close_part(int fd) {
  if (close(fd) != 0) sim_fail("cannot close", name);
}

static void change_part(const sim_t *sim) {
  int fd = open_part();
  write_part(fd, sim->rank, "changed.");
  close_part(fd);
}

static void at_once(const sim_t *sim) {
  int fd = open_part();
  MPI_Barrier(MPI_COMM_WORLD);
  write_part(fd, sim->rank, "changed.");
  MPI_Barrier(MPI_COMM_WORLD);
  close_part(fd);
}

static void in_turns(const sim_t *sim, int step) {
  int before = sim->rank - step, after = sim->rank + step;
  if (before >= 0 && before < sim->size)
    MPI_Recv(NULL, 0, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  change_part(sim);
  if (after >= 0 && after < sim->size) MPI_Send(NULL, 0, MPI_INT, after, 0, MPI_COMM_WORLD);
}

static void overtaking(const sim_t *sim, const char *stopped) {
  char go[4096];
  snprintf(go, sizeof go, "%s.go", stopped);
  while (sim->rank == 0 && access(stopped, F_OK) != 0) usleep(2000);
  change_part(sim);
  if (sim->rank == 0) close(open(go, O_WRONLY | O_CREAT, 0666));
}

static void past(const sim_t *sim, const char *stopped, const char *done) {
  while (sim->rank == 1 && access(stopped, F_OK) != 0) usleep(2000);
  if (sim->rank < 2) change_part(sim);
  for (int file = 0; sim->rank == 1 && file < 20; file++) {
    char own[64];
    snprintf(own, sizeof own, "ckpt/own.%d", file);
    int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) sim_fail("cannot open", own);
    write_part(fd, 0, "own part");
    close_part(fd);
  }
  if (sim->rank == 1) close(open(done, O_WRONLY | O_CREAT, 0666));
}

static void anew(const sim_t *sim) {
  int fd = sim->rank == 0 ? open_part() : -1;
  if (sim->rank == 0) write_part(fd, 0, "changed.");
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim->rank == 1) {
    int other = open(name, O_WRONLY | O_TRUNC);
    for (int part = 0; part < sim->size; part++) write_part(other, part, "changed.");
    close_part(other);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (sim->rank == 0) close_part(fd);
}

/* Takes the room that the file's store has, but for a little. */
static void eat(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT, 0666);
  if (fd < 0) sim_fail("cannot open", path);
  while (write(fd, rest, sizeof rest / 4) == sizeof rest / 4) continue;
  off_t all = lseek(fd, 0, SEEK_CUR);
  if (ftruncate(fd, all - (off_t)sizeof rest / 2) != 0) sim_fail("cannot cut", path);
  close(fd);
}

static void pass_on(int to, int from, int rank) {
  if (rank == from) MPI_Send(NULL, 0, MPI_INT, to, 0, MPI_COMM_WORLD);
  if (rank == to) MPI_Recv(NULL, 0, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void unagreed(const sim_t *sim, const char *eaten) {
  int fd = -1;
  if (sim->rank == 0 && eaten) eat(eaten);
  if (sim->rank == 1) pass_on(1, 0, 1);
  if (sim->rank < 2) {
    fd = open_part();
    write_part(fd, sim->rank, "changed.");
  }
  if (sim->rank == 0) pass_on(1, 0, 0);
  pass_on(0, 1, sim->rank);
  if (sim->rank == 0) close_part(fd);
  pass_on(1, 0, sim->rank);
  if (sim->rank == 1) close_part(fd);
}

int main(int argc, char **argv) {
  sim_t sim;
  int complete = 0;
  const char *manner = argv[1];
  const char *eaten = is(manner, "unagreed") && argc > 2 ? argv[2] : NULL;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  mkdir("ckpt", 0777);
  for (int round = 0; round < 4; round++) {
    if (sim.rank == 0) {
      int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
      for (int part = 0; part < sim.size; part++) write_part(fd, part, "original");
      if (eaten && pwrite(fd, rest, sizeof rest, 8 * sim.size) < 0) sim_fail("cannot write", name);
      close(fd);
    }
    complete = 0;
    for (int tries = 0; !complete && tries < 1000; tries++) {
      sim_calm(5, 5000);
      if (sim.rank == 0) complete = is_complete();
      MPI_Bcast(&complete, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
  }
  if (is(manner, "baton")) in_turns(&sim, 1);
  else if (is(manner, "back")) in_turns(&sim, -1);
  else if (is(manner, "overtaking")) overtaking(&sim, argv[2]);
  else if (is(manner, "anew")) anew(&sim);
  else if (is(manner, "past")) past(&sim, argv[2], argv[3]);
  else if (is(manner, "unagreed")) unagreed(&sim, eaten);
  else at_once(&sim);
  sim_calm(20, 5000);
  if (sim.rank == 0) printf("complete %d\n", complete);
  MPI_Finalize();
  return 0;
}
