/* The ranks of each node write one file of each checkpoint together, a part each.
 *
 * usage: node_files MANNER RANKS_PER_NODE STEPS [PAUSE_STEP PAUSE_FILE]
 * mpiio, hdf5: on a communicator of the node. subfile: as ADIOS2 does, in a chain that the node's
 * first rank begins and ends, with an index of rank 0. pwrite, threads, dup, fork: all have it open
 * at the same time; by threads, by a copy of the descriptor, by a child. append, baton: one after
 * another, as messages say; with O_APPEND, by a stream. mapping: through memory.
 * At PAUSE_STEP it makes PAUSE_FILE and waits until that has gone. It goes on from the newest
 * checkpoint that all ranks can read. */
#include <hdf5.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "sim.h"

#define PART sizeof(sim_t)

static MPI_Comm node;
static int place, places; /* of this rank on its node */

static void name_of(char *name, size_t bytes, int number, const sim_t *sim, const char *kind) {
  snprintf(name, bytes, "ckpt/step_%d/%s_%d.dat", number, kind, sim->rank / places);
}

static int opened(const char *name, int flags) {
  int fd = open(name, flags, 0666);
  if (fd < 0) sim_fail("cannot open", name);
  return fd;
}

static void closed(const char *name, int fd) {
  if (close(fd) != 0) sim_fail("cannot close", name);
}

static void put(const char *name, int fd, const void *bytes, size_t size, off_t at) {
  if (pwrite(fd, bytes, size, at) != (ssize_t)size) sim_fail("cannot write", name);
}

/* The turn comes from the rank before and goes to the next. */
static void wait_turn(void) {
  if (place > 0) MPI_Recv(NULL, 0, MPI_BYTE, place - 1, 1, node, MPI_STATUS_IGNORE);
}

static void pass_turn(void) {
  if (place < places - 1) MPI_Send(NULL, 0, MPI_BYTE, place + 1, 1, node);
}

static void good(int code, const char *name) {
  if (code != MPI_SUCCESS) sim_fail("MPI-IO", name);
}

static void by_mpi_io(const sim_t *sim, const char *name) {
  MPI_File file;
  int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
  good(MPI_File_open(node, name, mode, MPI_INFO_NULL, &file), name);
  good(MPI_File_set_size(file, 0), name);
  MPI_Offset at = (MPI_Offset)place * (MPI_Offset)PART;
  good(MPI_File_write_at_all(file, at, sim, PART, MPI_BYTE, MPI_STATUS_IGNORE), name);
  good(MPI_File_close(&file), name);
}

/* One transfer by all ranks of the node together; `write` or read. */
static int by_hdf5(sim_t *sim, const char *name, int write) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), together = H5Pcreate(H5P_DATASET_XFER);
  hid_t made = H5Pcreate(H5P_DATASET_CREATE);
  hsize_t count = PART, first = (hsize_t)place * PART, all = (hsize_t)places * PART;
  hid_t memory = H5Screate_simple(1, &count, NULL), space = H5Screate_simple(1, &all, NULL);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  H5Pset_fapl_mpio(access, node, MPI_INFO_NULL);
  H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
  H5Pset_obj_track_times(made, 0);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL);
  hid_t file = write ? H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                     : H5Fopen(name, H5F_ACC_RDONLY, access);
  if (file < 0) return 0;
  hid_t set = write
    ? H5Dcreate2(file, "part", H5T_NATIVE_UINT8, space, H5P_DEFAULT, made, H5P_DEFAULT)
    : H5Dopen2(file, "part", H5P_DEFAULT);
  herr_t code = write ? H5Dwrite(set, H5T_NATIVE_UINT8, memory, space, together, sim)
                      : H5Dread(set, H5T_NATIVE_UINT8, memory, space, together, sim);
  H5Dclose(set), H5Sclose(space), H5Sclose(memory);
  H5Pclose(made), H5Pclose(together), H5Pclose(access);
  return H5Fclose(file) >= 0 && code >= 0;
}

/* Each rank tells the next where its part ends; the first has the file open all the time. */
static void by_chain(const sim_t *sim, const char *name) {
  int64_t at = 0;
  int fd = -1;
  if (place == 0) fd = opened(name, O_RDWR | O_CREAT | O_TRUNC);
  else MPI_Recv(&at, 1, MPI_INT64_T, place - 1, 2, node, MPI_STATUS_IGNORE);
  if (place > 0) fd = opened(name, O_RDWR);
  if (lseek(fd, at, SEEK_SET) != at || write(fd, sim, PART) != (ssize_t)PART)
    sim_fail("cannot write", name);
  if (place > 0) closed(name, fd);
  at += (int64_t)PART;
  MPI_Send(&at, 1, MPI_INT64_T, (place + 1) % places, 2, node);
  if (place != 0) return;
  MPI_Recv(&at, 1, MPI_INT64_T, places - 1, 2, node, MPI_STATUS_IGNORE);
  if (fsync(fd) != 0) sim_fail("cannot sync", name);
  closed(name, fd);
}

static void write_index(const sim_t *sim) {
  char name[256];
  int64_t bytes = (int64_t)PART, all[64] = {0};
  MPI_Gather(&bytes, 1, MPI_INT64_T, all, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  if (sim->rank != 0) return;
  snprintf(name, sizeof name, "ckpt/step_%d/md.0", sim->step);
  int fd = opened(name, O_WRONLY | O_CREAT | O_TRUNC);
  put(name, fd, all, (size_t)sim->size * sizeof *all, 0);
  closed(name, fd);
}

typedef struct {
  const char *name, *bytes;
  int fd;
  off_t at;
} half_t;

static void *write_half(void *argument) {
  half_t *half = argument;
  put(half->name, half->fd, half->bytes, PART / 2, half->at);
  return NULL;
}

static void together(const sim_t *sim, const char *name, const char *manner) {
  const char *bytes = (const char *)sim;
  off_t at = (off_t)place * (off_t)PART, middle = (off_t)(PART / 2);
  int fd = opened(name, O_WRONLY | O_CREAT);
  half_t low = {name, bytes, fd, at}, high = {name, bytes + middle, fd, at + middle};
  if (!strcmp(manner, "threads")) {
    pthread_t other;
    pthread_create(&other, NULL, write_half, &low);
    write_half(&high);
    pthread_join(other, NULL);
  } else if (!strcmp(manner, "dup")) {
    high.fd = low.fd = dup(fd);
    closed(name, fd);
    write_half(&low), write_half(&high);
    fd = low.fd;
  } else if (!strcmp(manner, "fork")) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) write_half(&low), _exit(0);
    write_half(&high);
    if (waitpid(child, &status, 0) != child || status != 0) sim_fail("child of", name);
  } else {
    write_half(&low), write_half(&high);
  }
  closed(name, fd);
}

static void by_append(const sim_t *sim, const char *name) {
  wait_turn();
  int fd = opened(name, O_WRONLY | O_CREAT | O_APPEND);
  if (write(fd, sim, PART) != (ssize_t)PART) sim_fail("cannot append to", name);
  closed(name, fd);
  pass_turn();
}

static void by_baton(const sim_t *sim, const char *name) {
  wait_turn();
  FILE *stream = fopen(name, place == 0 ? "w" : "r+");
  if (!stream) sim_fail("cannot open", name);
  int code = fseek(stream, place * (long)PART, SEEK_SET);
  if (code != 0 || fwrite(sim, PART, 1, stream) != 1) sim_fail("cannot write", name);
  if (fclose(stream) != 0) sim_fail("cannot close", name);
  pass_turn();
}

static void by_mapping(const sim_t *sim, const char *name) {
  size_t size = (size_t)places * PART;
  int fd = opened(name, O_RDWR | O_CREAT);
  if (ftruncate(fd, (off_t)size) != 0) sim_fail("cannot resize", name);
  char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED) sim_fail("cannot map", name);
  memcpy(bytes + (size_t)place * PART, sim, PART);
  if (munmap(bytes, size) != 0) sim_fail("cannot unmap", name);
  closed(name, fd);
}

static void checkpoint(sim_t *sim, const char *manner) {
  char name[256];
  if (place == 0) sim_mkdir(sim, sim->step);
  MPI_Barrier(MPI_COMM_WORLD);
  name_of(name, sizeof name, sim->step, sim, "node");
  if (!strcmp(manner, "mpiio")) by_mpi_io(sim, name);
  else if (!strcmp(manner, "hdf5") && !by_hdf5(sim, name, 1)) sim_fail("HDF5", name);
  else if (!strcmp(manner, "subfile")) by_chain(sim, name), write_index(sim);
  else if (!strcmp(manner, "append")) by_append(sim, name);
  else if (!strcmp(manner, "baton")) by_baton(sim, name);
  else if (!strcmp(manner, "mapping")) by_mapping(sim, name);
  else if (strcmp(manner, "hdf5")) together(sim, name, manner);
  sim_calm(10, 20000);
}

static int load(sim_t *sim, const char *manner, int step) {
  char name[256];
  name_of(name, sizeof name, step, sim, "node");
  if (!strcmp(manner, "hdf5")) return by_hdf5(sim, name, 0);
  int fd = open(name, O_RDONLY);
  ssize_t got = fd < 0 ? -1 : pread(fd, sim, PART, (off_t)place * (off_t)PART);
  if (fd >= 0) close(fd);
  return got == (ssize_t)PART;
}

static void restart(sim_t *sim, const char *manner, int steps) {
  for (int step = steps - steps % 5; step > 0; step -= 5) {
    static sim_t copy;
    copy = *sim;
    int mine = load(&copy, manner, step) && copy.rank == sim->rank && copy.step == step, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) continue;
    *sim = copy;
    return sim_tell_restart(sim, step);
  }
  sim_tell_restart(sim, 0);
}

static void wait_until_gone(const sim_t *sim, const char *pause) {
  if (sim->rank == 0) close(open(pause, O_WRONLY | O_CREAT, 0666));
  for (int there = 1; there;) {
    if (sim->rank == 0) there = access(pause, F_OK) == 0;
    MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    sim_calm(1, 20000);
  }
}

int main(int argc, char **argv) {
  static sim_t sim;
  MPI_Init(&argc, &argv);
  if (argc < 4) return 2;
  int steps = atoi(argv[3]), pause = argc > 5 ? atoi(argv[4]) : 0;
  places = atoi(argv[2]);
  sim_init(&sim);
  MPI_Comm_split(MPI_COMM_WORLD, sim.rank / places, sim.rank, &node);
  MPI_Comm_rank(node, &place);
  restart(&sim, argv[1], steps);
  while (sim.step < steps) {
    sim_step(&sim, MPI_COMM_WORLD);
    if (sim.step % 5 == 0) checkpoint(&sim, argv[1]);
    if (sim.step == pause) wait_until_gone(&sim, argv[5]);
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Comm_free(&node);
  MPI_Finalize();
  return 0;
}
