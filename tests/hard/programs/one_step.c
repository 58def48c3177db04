/* Rank 0 gives names to files and directories of its checkpoints; the others look all the time, and
 * count what no file system shows: that a file has neither its old name nor its new one, that the
 * old one is there after the new one was seen, that a name which always leads to a file leads to
 * none, or to a content that is older than one seen before. Turns are taken by messages; all that
 * is printed is 0. Arguments: what is done, rounds, barriers between a checkpoint and that. */
#include "sim.h"
#include <dirent.h>

static long neither, both, stale, looks;
static int rank, size;

static int listed(const char *path) {
  char dir[256];
  snprintf(dir, sizeof dir, "%s", path);
  char *name = strrchr(dir, '/');
  *name++ = 0;
  DIR *stream = opendir(dir);
  if (!stream) return 0;
  int found = 0;
  for (struct dirent *one; (one = readdir(stream));) found |= strcmp(one->d_name, name) == 0;
  closedir(stream);
  return found;
}

/* The ways to look at a name, in turn. */
static int is_there(const char *path, int way) {
  struct stat found;
  switch (way % 4) {
  case 0: return stat(path, &found) == 0;
  case 1: return access(path, F_OK) == 0;
  case 2: return listed(path);
  }
  int fd = open(path, O_RDONLY);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static int told(void) {
  int here = 0;
  MPI_Iprobe(0, 1, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
  return here;
}

static void tell_all(int tag) {
  for (int to = 1; to < size; to++) MPI_Send(NULL, 0, MPI_INT, to, tag, MPI_COMM_WORLD);
}

static void hear(int tag) {
  MPI_Recv(NULL, 0, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The others are through with what they look at. */
static void await_all(void) {
  for (int from = 1; rank == 0 && from < size; from++)
    MPI_Recv(NULL, 0, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank > 0) MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD);
}

static void put(const char *path, int value) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) sim_fail("cannot open", path);
  if (write(fd, &value, sizeof value) != sizeof value) sim_fail("cannot write", path);
  if (close(fd) != 0) sim_fail("cannot close", path);
}

static int get(const char *path) {
  int value = -1, fd = open(path, O_RDONLY);
  if (fd < 0) return -1;
  if (read(fd, &value, sizeof value) != sizeof value) value = -1;
  close(fd);
  return value;
}

/* `of` says which file, for a directory below both. */
static void move(const char *from, const char *to, const char *of) {
  char old[300], new[300];
  snprintf(old, sizeof old, "%s%s", from, of);
  snprintf(new, sizeof new, "%s%s", to, of);
  if (rank == 0) {
    tell_all(0);
    usleep(1000);
    if (rename(from, to) != 0) sim_fail("cannot rename", from);
    usleep(1000);
    tell_all(1);
  } else {
    hear(0);
    for (int way = rank; !told(); way++, looks++) {
      int first = is_there(old, way), second = is_there(new, way), third = is_there(old, way);
      neither += !first && !second;
      both += second && third;
    }
    hear(1);
    for (int way = 0; way < 4; way++) stale += is_there(old, way) || !is_there(new, way);
  }
  await_all();
}

/* `name` is there always, with contents that count up. */
static void replace(const char *other, const char *name, int value) {
  if (rank == 0) {
    tell_all(0);
    usleep(1000);
    put(other, value);
    if (rename(other, name) != 0) sim_fail("cannot rename", other);
    usleep(1000);
    tell_all(1);
  } else {
    hear(0);
    int last = value - 1;
    for (int way = rank; !told(); way++, looks++) {
      neither += !is_there(name, way);
      int now = get(name);
      both += now < last;
      last = now;
    }
    hear(1);
    stale += get(name) != value;
  }
  await_all();
}

/* All try; one succeeds, the others find nothing. */
static void contend(const char *from, const char *to) {
  int mine = rename(from, to) == 0, all = 0;
  if (!mine) neither += errno != ENOENT;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  stale += !is_there(to, rank) || is_there(from, rank);
  both += all != 1;
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const char *what = argv[1];
  int rounds = atoi(argv[2]), calm = atoi(argv[3]);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  mkdir("ckpt", 0777);
  for (int round = 1; round <= rounds; round++) {
    char dir[100], other[100], own[200], one[200], two[200], of[100];
    int waits = strcmp(what, "final") == 0;
    snprintf(dir, sizeof dir, "ckpt/step_%d%s", round, waits ? ".new" : "");
    snprintf(other, sizeof other, waits ? "ckpt/step_%d" : "ckpt/old_%d", round);
    snprintf(own, sizeof own, "%s/rank_%d.dat", dir, rank);
    mkdir(dir, 0777);
    put(own, round);
    MPI_Barrier(MPI_COMM_WORLD);
    sim_calm(calm, 1000);
    snprintf(one, sizeof one, "%s/rank_0.dat", dir);
    if (strcmp(what, "file") == 0) {
      snprintf(two, sizeof two, "%s/rank_100.dat", dir);
      move(one, two, "");
      move(two, one, "");
    } else if (strcmp(what, "out") == 0) {
      snprintf(two, sizeof two, "ckpt/saved_%d", round);
      move(one, two, "");
    } else if (strcmp(what, "dir") == 0 || waits) {
      for (int rank = 0; rank < 2; rank++) {
        snprintf(of, sizeof of, "/rank_%d.dat", rank);
        if (rank == 0) move(dir, other, of);
        else if (!waits) move(other, dir, of);
      }
    } else if (strcmp(what, "replace") == 0) {
      snprintf(two, sizeof two, "%s/rank_100.dat", dir);
      for (int value = 1; value < 4; value++) replace(two, one, round + value);
    } else {
      snprintf(two, sizeof two, "%s/rank_100.dat", dir);
      for (int turn = 0; turn < 3; turn++) {
        contend(one, two);
        contend(two, one);
        snprintf(two, sizeof two, "ckpt/saved_%d", round);
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  long mine[3] = {neither, both, stale}, all[3];
  MPI_Reduce(mine, all, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("neither %ld both %ld stale %ld\n", all[0], all[1], all[2]);
  MPI_Finalize();
  return 0;
}
