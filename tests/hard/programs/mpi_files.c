/* Files that all ranks write together by MPI-IO, one for each checkpoint, beside a file a rank.
 *
 * usage: mpi_files PATTERN STEPS
 * The patterns are what programs do: see `write_all`. halves: a file for each half of the ranks,
 * which calls as often as it likes. missing, missing-on-one: a file is opened that is not there, or
 * by one rank with a name that is not there. refused: writes fail on some rank. threads: a thread
 * beside the one that writes passes barriers of a communicator of its own. asked: it might; late
 * files are asked how long they are. */
#include <pthread.h>

#include "sim.h"

#define PART ((MPI_Offset)sizeof(sim_t))

static int is(const char *pattern, const char *name) { return strcmp(pattern, name) == 0; }

static void good(int code, const char *what) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "%s: %s\n", what, text);
  MPI_Abort(MPI_COMM_WORLD, 4);
}

#define GOOD(call) good(call, #call)

static MPI_File opened(MPI_Comm comm, const char *name) {
  MPI_File file;
  int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
  GOOD(MPI_File_open(comm, name, mode, MPI_INFO_NULL, &file));
  return file;
}

static void at_all(const sim_t *sim, MPI_File file, MPI_Offset at) {
  GOOD(MPI_File_write_at_all(file, at, sim, PART, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void at_own(const sim_t *sim, MPI_File file, MPI_Offset at) {
  GOOD(MPI_File_write_at(file, at, sim, PART, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* By calls on the file alone: it is written, it is known to be, and how long it is. Not while it
 * may be watched: then it would stay on the prefix. */
static void ask(const sim_t *sim, MPI_File file, const char *name) {
  MPI_Offset size = 0;
  int told = 0, sum;
  if (sim->step < 25) return;
  GOOD(MPI_File_sync(file));
  MPI_Reduce(&told, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Bcast(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
  GOOD(MPI_File_sync(file));
  GOOD(MPI_File_get_size(file, &size));
  if (size != sim->size * PART) sim_fail("wrong size of", name);
}

static void write_all(const sim_t *sim, const char *pattern, const char *name) {
  MPI_File file = opened(MPI_COMM_WORLD, name);
  MPI_Offset own = sim->rank * PART, all = sim->size * PART;
  static sim_t zeros, back;
  MPI_Request request;
  MPI_Datatype view;
  if (is(pattern, "collective")) {
    at_all(sim, file, own);
  } else if (is(pattern, "asked")) {
    at_all(sim, file, own);
    ask(sim, file, name);
  } else if (is(pattern, "independent")) {
    at_own(sim, file, own);
  } else if (is(pattern, "view")) {
    int columns = SIM_CELLS / 4, sizes[] = {8, columns * sim->size}, own_sizes[] = {8, columns};
    int starts[] = {0, columns * sim->rank};
    MPI_Type_create_subarray(2, sizes, own_sizes, starts, MPI_ORDER_C, MPI_INT, &view);
    MPI_Type_commit(&view);
    GOOD(MPI_File_set_view(file, 0, MPI_INT, view, "native", MPI_INFO_NULL));
    GOOD(MPI_File_write_all(file, sim->cells, 8 * columns, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Type_free(&view);
  } else if (is(pattern, "ordered")) {
    GOOD(MPI_File_write_ordered(file, sim, PART, MPI_BYTE, MPI_STATUS_IGNORE));
  } else if (is(pattern, "preallocated")) {
    GOOD(MPI_File_set_size(file, 0));
    GOOD(MPI_File_preallocate(file, all));
    at_all(sim, file, own);
    GOOD(MPI_File_set_size(file, all));
  } else if (is(pattern, "header")) {
    if (sim->rank == 0) at_own(sim, file, 0);
    at_all(sim, file, PART + own);
    if (sim->rank == 0) at_own(sim, file, 0);
  } else if (is(pattern, "filled")) {
    for (int i = 0; sim->rank == 0 && i < sim->size; i++) at_own(&zeros, file, i * PART);
    GOOD(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    at_all(sim, file, own);
  } else if (is(pattern, "read")) {
    MPI_Offset other = (sim->rank + 1) % sim->size * PART;
    at_all(sim, file, own);
    GOOD(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    GOOD(MPI_File_sync(file));
    GOOD(MPI_File_read_at_all(file, other, &back, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    if (back.rank != (sim->rank + 1) % sim->size) sim_fail("wrong content in", name);
  } else if (is(pattern, "nonblocking")) {
    GOOD(MPI_File_iwrite_at(file, own, sim, PART, MPI_BYTE, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (is(pattern, "atomic")) {
    GOOD(MPI_File_set_atomicity(file, 1));
    at_own(sim, file, own);
  } else if (is(pattern, "split")) {
    GOOD(MPI_File_write_at_all_begin(file, own, sim, PART, MPI_BYTE));
    GOOD(MPI_File_write_at_all_end(file, sim, MPI_STATUS_IGNORE));
  } else if (is(pattern, "refused")) {
    int count = sim->rank == 0 ? -1 : (int)PART;
    at_all(sim, file, own);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    int code = MPI_File_write_at(file, own, sim, count, MPI_BYTE, MPI_STATUS_IGNORE);
    if (count < 0 && code == MPI_SUCCESS) sim_fail("wrote less than nothing to", name);
  }
  GOOD(MPI_File_close(&file));
}

/* The second half makes one call more than the first. */
static void write_halves(const sim_t *sim, const char *name) {
  MPI_Comm half;
  char own[300];
  int second = sim->rank >= sim->size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, second, sim->rank, &half);
  snprintf(own, sizeof own, "%s.%d", name, second);
  MPI_File file = opened(half, own);
  at_all(sim, file, sim->rank * PART);
  if (second) GOOD(MPI_File_sync(file));
  GOOD(MPI_File_close(&file));
  MPI_Comm_free(&half);
}

/* What is opened all the same is left open: who has it would wait for the others to close it. */
static void look_for_missing(const sim_t *sim, const char *name, int on_all) {
  MPI_File file;
  int missing = on_all || sim->rank == 1, mode = MPI_MODE_RDONLY;
  const char *path = missing ? "ckpt/none/missing" : name;
  int code = MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file);
  if (missing && code == MPI_SUCCESS) sim_fail("opened", path);
  if (code == MPI_SUCCESS) {
    MPI_File_read_at(file, 0, (char[8]){0}, 8, MPI_BYTE, MPI_STATUS_IGNORE);
  }
}

static void *pass_barriers(void *argument) {
  for (int i = 0; i < 50; i++) MPI_Barrier(*(MPI_Comm *)argument);
  return NULL;
}

static void write_beside(const sim_t *sim, const char *name, MPI_Comm *other) {
  pthread_t thread;
  pthread_create(&thread, NULL, pass_barriers, other);
  MPI_File file = opened(MPI_COMM_WORLD, name);
  for (int i = 0; i < 10; i++) at_all(sim, file, (i * sim->size + sim->rank) * PART);
  GOOD(MPI_File_close(&file));
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  static sim_t sim;
  const char *pattern = argc > 1 ? argv[1] : "collective";
  int steps = argc > 2 ? atoi(argv[2]) : 20, threads = is(pattern, "threads"), granted;
  int level = threads || is(pattern, "asked") ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
  MPI_Comm other;
  MPI_Init_thread(&argc, &argv, level, &granted);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  sim_init(&sim);
  while (sim.step < steps) {
    char name[256];
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 != 0) continue;
    sim_checkpoint(&sim);
    snprintf(name, sizeof name, "ckpt/step_%d/shared.dat", sim.step);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is(pattern, "halves")) write_halves(&sim, name);
    else if (threads) write_beside(&sim, name, &other);
    else write_all(&sim, is(pattern, "missing") ? "collective" : pattern, name);
    if (is(pattern, "missing")) look_for_missing(&sim, name, 1);
    if (is(pattern, "missing-on-one")) look_for_missing(&sim, name, 0);
    sim_calm(5, 10000);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Comm_free(&other);
  MPI_Finalize();
  return 0;
}
