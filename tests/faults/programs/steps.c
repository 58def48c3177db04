/* A simulation that checks itself: steps LAST [STOP].
 *
 * Each rank has a number that changes with each step and with those of all ranks, and writes it,
 * with the step and a checksum, to ckpt/step_<step>/rank_<rank>.dat after each step; rank 0 then
 * names the step in ckpt/latest, through a temporary name. At its start it goes on from the newest
 * step of which every rank finds its file whole. It ends after step LAST; with STOP all ranks kill
 * themselves after that step. Standard output: `from <step>`, `result <number>`, and for each of
 * its own calls that fails a line `failed <call> <path> of step <step>: ...` (`find`: an open at
 * the start). Exit status 0: the job of the test is to judge. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 8192, CALM = 8, CALM_MICROSECONDS = 2000 };

static int rank, at_step;

static void failed(const char *call, const char *path) {
  int error = errno;
  char line[512];
  int length = snprintf(line, sizeof line, "failed %s %s of step %d: rank %d: %s\n", call, path,
                        at_step, rank, strerror(error));
  if (write(1, line, length) != length) abort();
}

static uint64_t mixed(uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ value >> 33;
}

/* The whole file follows from the rank, the step and the state; its last word is the checksum. */
static void fill(uint64_t *words, uint64_t step, uint64_t state) {
  words[0] = step;
  words[1] = state;
  words[WORDS - 1] = 0;
  for (int i = 2; i < WORDS - 1; i++) words[i] = mixed(words[1] + i * 31 + rank);
  for (int i = 0; i < WORDS - 1; i++) words[WORDS - 1] = mixed(words[WORDS - 1] + words[i]);
}

static int put(const char *path, const void *bytes, size_t size) {
  int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644), good = 1;
  if (file < 0) {
    failed("open", path);
    return 0;
  }
  for (size_t done = 0; good && done < size;) {
    size_t part = size - done < 20000 ? size - done : 20000;
    ssize_t wrote = write(file, (const char *)bytes + done, part);
    good = wrote > 0;
    done += good ? (size_t)wrote : 0;
  }
  if (!good) failed("write", path);
  if (good && fsync(file)) good = 0, failed("fsync", path);
  if (close(file)) good = 0, failed("close", path);
  return good;
}

/* Whether the file of `step` is whole here; `state` is then what it holds. */
static int get(int step, uint64_t *state) {
  static uint64_t words[WORDS + 1], right[WORDS];
  char path[64];
  snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", step, rank);
  int file = open(path, O_RDONLY);
  if (file < 0) {
    if (errno != ENOENT) failed("find", path);
    return 0;
  }
  size_t size = 0;
  ssize_t got = 1;
  while (got > 0 && size < sizeof words) {
    got = read(file, (char *)words + size, sizeof words - size);
    size += got > 0 ? got : 0;
  }
  if (got < 0) failed("read", path);
  if (close(file)) failed("close", path);
  if (got < 0 || size != sizeof right) return 0;
  fill(right, step, words[1]);
  *state = words[1];
  return !memcmp(words, right, sizeof right);
}

static void checkpoint(int step, uint64_t state) {
  static uint64_t words[WORDS];
  char directory[64], path[96], name[32];
  at_step = step;
  snprintf(directory, sizeof directory, "ckpt/step_%d", step);
  if (rank == 0 && mkdir(directory, 0755) && errno != EEXIST) failed("mkdir", directory);
  MPI_Barrier(MPI_COMM_WORLD);
  fill(words, step, state);
  snprintf(path, sizeof path, "%s/rank_%d.dat", directory, rank);
  int good = put(path, words, sizeof words), all;
  MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  int length = snprintf(name, sizeof name, "step_%d\n", step);
  if (rank == 0 && all && put("ckpt/latest.tmp", name, length) &&
      rename("ckpt/latest.tmp", "ckpt/latest"))
    failed("rename", "ckpt/latest.tmp");
}

/* The newest step, from `last` down, whose files are whole on all ranks. */
static int restart(int last, uint64_t *state) {
  for (int step = last; step > 0; step--) {
    at_step = step;
    uint64_t found = 0;
    int here = get(step, &found), all;
    MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all) {
      *state = found;
      return step;
    }
  }
  return 0;
}

int main(int count, char **words) {
  int last = atoi(words[1]), stop = count > 2 ? atoi(words[2]) : 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  uint64_t state = rank + 1, sum;
  if (rank == 0 && mkdir("ckpt", 0755) && errno != EEXIST) failed("mkdir", "ckpt");
  int step = restart(last, &state);
  if (rank == 0) {
    char line[64];
    int length = snprintf(line, sizeof line, "from %d\n", step);
    if (write(1, line, length) != length) abort();
  }
  while (step < last) {
    MPI_Allreduce(&state, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    state = mixed(state + sum);
    checkpoint(++step, state);
    for (int i = 0; i < CALM; i++) { /* the checkpoint is sealed meanwhile */
      usleep(CALM_MICROSECONDS);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    if (step == stop) raise(SIGKILL);
  }
  MPI_Allreduce(&state, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) printf("result %016llx\n", (unsigned long long)sum);
  return 0;
}
