/* Checkpoints of one file that all ranks write, in the ways of MPI-IO and of POSIX.
 *
 * usage: shares WAY [STEPS [PAUSE]]  each step writes ckpt/step_<step>/all.dat
 * With "half-" before a way of MPI-IO each half of the ranks has a file, the second odd.dat. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 256 << 10, FEW = 1000, PIECE = 47008, SIDE = 1000 };

static int rank, size, step;
/* The ranks that write one file. */
static MPI_Comm all;
static char *data, path[64];
static MPI_File file;
static MPI_Status status;

static void ok(int failed, const char *what) {
  if (failed) {
    fprintf(stderr, "%s failed\n", what);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
}
#define OK(call) ok((call) != MPI_SUCCESS, #call)
#define IS(call) ok(!(call), #call)

/* Two columns of blocks, each rank one of them; three matrices one after the other. */
static void blocks(int together) {
  int rows = size / 2, whole[] = {SIDE, SIDE}, own[] = {SIDE / rows, SIDE / 2};
  int first[] = {rank / 2 * own[0], rank % 2 * own[1]};
  MPI_Datatype type;
  MPI_Type_create_subarray(2, whole, own, first, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  double *cells = malloc(sizeof *cells * own[0] * own[1]);
  for (int i = 0; i < own[0] * own[1]; i++) cells[i] = rank + data[0];
  for (MPI_Offset k = 0; k < 3; k++) {
    OK(MPI_File_set_view(file, k * SIDE * SIDE * 8, MPI_DOUBLE, type, "native", MPI_INFO_NULL));
    if (together) OK(MPI_File_write_all(file, cells, own[0] * own[1], MPI_DOUBLE, &status));
    else OK(MPI_File_write(file, cells, own[0] * own[1], MPI_DOUBLE, &status));
  }
  MPI_Type_free(&type);
  free(cells);
}

/* Pages between which older bytes lie: MPI-IO may read those, and write them back. */
static void gaps(MPI_Offset own) {
  enum { PAGE = 3000, PAGES = BYTES / PAGE };
  MPI_Datatype type;
  MPI_Type_vector(PAGES, PAGE, PAGE + FEW, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  for (int i = 0; i < 2; i++)
    OK(MPI_File_write_at_all(file, 2 * own + i * BYTES, data, BYTES, MPI_BYTE, &status));
  OK(MPI_File_set_view(file, 2 * own, MPI_BYTE, type, "native", MPI_INFO_NULL));
  OK(MPI_File_write_all(file, data, PAGES * PAGE, MPI_BYTE, &status));
  MPI_Type_free(&type);
}

/* One rank writes the header; long after, all go on. The time is measured: the steps that follow a
   checkpoint take many times as long, however busy the machine is. */
static double late_seconds = 0;

static void late(void) {
  double begin = MPI_Wtime();
  if (rank == 0) {
    FILE *header = fopen(path, "wb");
    IS(header && fwrite(data, FEW, 1, header) == 1 && fclose(header) == 0);
  }
  for (int i = 0; i < 5; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(20000);
  }
  late_seconds = MPI_Wtime() - begin;
  MPI_Bcast(&late_seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

/* Written again and again, as PnetCDF does it with NC_CLOBBER: one rank empties what is there. */
static void clobbered(void) {
  for (int i = 0; i < 3; i++) {
    if (rank == 0 && access(path, F_OK) == 0) IS(truncate(path, 0) == 0);
    MPI_Barrier(all);
    OK(MPI_File_open(all, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at(file, (MPI_Offset)rank * BYTES, data, BYTES - i, MPI_BYTE, &status));
    OK(MPI_File_close(&file));
  }
}

static void by_mpi(const char *way) {
  MPI_Offset own = (MPI_Offset)rank * BYTES;
  char temporary[80];
  int renames = !strncmp(way, "renamed", 7), of_directory = !strncmp(way, "renamed-directory", 17);
  snprintf(temporary, sizeof temporary, of_directory ? "%.*s.tmp/%s" : "%.*s/%s.tmp",
           (int)(strrchr(path, '/') - path), path, strrchr(path, '/') + 1);
  const char *first = renames ? temporary : path;
  if (!strcmp(way, "deleted")) {
    int token = 0;
    if (rank == 0) unlink(path);
    MPI_Bcast(&token, 1, MPI_INT, 0, all);
  } else if (!strcmp(way, "late")) {
    late();
    own += FEW;
  }
  OK(MPI_File_open(all, first, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  if (!strcmp(way, "single")) {
    OK(MPI_File_write_at(file, own, data, BYTES, MPI_BYTE, &status));
  } else if (!strcmp(way, "all") || !strcmp(way, "deleted") || !strcmp(way, "late") ||
             renames) {
    OK(MPI_File_write_at_all(file, own, data, BYTES, MPI_BYTE, &status));
  } else if (!strcmp(way, "emptied")) {
    OK(MPI_File_set_size(file, 0));
    if (rank == 0) OK(MPI_File_write_at(file, 0, data, 8, MPI_BYTE, &status));
    OK(MPI_File_write_at_all(file, 8 + own, data, BYTES, MPI_BYTE, &status));
  } else if (!strncmp(way, "blocks", 6)) {
    blocks(!strcmp(way, "blocks-all"));
  } else if (!strcmp(way, "gaps")) {
    gaps(own);
  } else if (!strcmp(way, "strides")) {
    for (MPI_Offset i = 0; i < BYTES / FEW; i++)
      OK(MPI_File_write_at(file, (i * size + rank) * FEW, data, FEW, MPI_BYTE, &status));
  } else if (!strcmp(way, "read-back")) {
    OK(MPI_File_write_at(file, own, data, BYTES, MPI_BYTE, &status));
    MPI_File_sync(file);
    MPI_Barrier(all);
    MPI_File_sync(file);
    OK(MPI_File_read_at(file, (rank + 3) % size * (MPI_Offset)BYTES, data, BYTES, MPI_BYTE,
                        &status));
  } else if (!strcmp(way, "later")) {
    MPI_Request request;
    OK(MPI_File_iwrite_at(file, own, data, BYTES, MPI_BYTE, &request));
    MPI_Wait(&request, &status);
  } else if (!strcmp(way, "again")) {
    OK(MPI_File_write_at(file, own, data, BYTES / 2, MPI_BYTE, &status));
    OK(MPI_File_close(&file));
    OK(MPI_File_open(all, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at(file, own + BYTES / 2, data, BYTES / 2, MPI_BYTE, &status));
  } else if (!strcmp(way, "passed-on")) {
    OK(MPI_File_write_at(file, own, data, BYTES, MPI_BYTE, &status));
    OK(MPI_File_sync(file));
    MPI_Barrier(all);
    OK(MPI_File_sync(file));
    /* From the fourth on over what another rank has just written. */
    int to = step < 4 ? rank : (rank + 1) % size;
    memset(data, '0' + rank, BYTES);
    OK(MPI_File_write_at(file, to * (MPI_Offset)BYTES, data, BYTES / 2, MPI_BYTE, &status));
  } else if (!strcmp(way, "asked")) {
    MPI_Offset found;
    for (int i = 0; i < 3; i++) {
      OK(MPI_File_write_at_all(file, own + i * size * (MPI_Offset)BYTES, data, BYTES, MPI_BYTE,
                               &status));
      OK(MPI_File_sync(file));
      MPI_Barrier(all);
      OK(MPI_File_sync(file));
      OK(MPI_File_get_size(file, &found));
      IS(found == (i + 1) * size * (MPI_Offset)BYTES);
    }
  } else if (!strcmp(way, "filled")) {
    if (rank == 0)
      for (int i = 0; i < size; i++)
        OK(MPI_File_write_at(file, i * (MPI_Offset)BYTES, data, BYTES, MPI_BYTE, &status));
    MPI_Barrier(all);
    OK(MPI_File_write_at_all(file, own, data, BYTES, MPI_BYTE, &status));
  }
  OK(MPI_File_close(&file));
  if (!strcmp(way, "renamed-directory-beside")) {
    char own_path[100];
    snprintf(own_path, sizeof own_path, "%s.%d", first, rank);
    int fd = open(own_path, O_CREAT | O_WRONLY, 0644);
    IS(fd >= 0 && write(fd, data, BYTES) == BYTES && close(fd) == 0);
  }
  if (renames) {
    double begin = MPI_Wtime();
    MPI_Barrier(all);
    if (of_directory) {
      *strrchr(path, '/') = 0;
      *strrchr(temporary, '/') = 0;
    }
    if (rank == 0) IS(rename(temporary, path) == 0);
    MPI_Barrier(all);
    if (rank == 0 && getenv("TIMES"))
      fprintf(stderr, "step %d: %.2f s\n", step, MPI_Wtime() - begin);
  }
}

/* Collectives that follow one another fast: few of them carry anything of SCR's. */
static void rush(int count) {
  double value = rank, largest;
  for (int i = 0; i < count; i++)
    MPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void by_posix(const char *way) {
  int fd = -1, token, rushed = !strncmp(way, "rushed", 6);
  if (!strcmp(way, "turns")) {
    if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, &status);
    IS((fd = open(path, rank ? O_RDWR : O_RDWR | O_CREAT, 0644)) >= 0);
    lseek(fd, 0, SEEK_END);
    IS(write(fd, data, BYTES) == BYTES);
    close(fd);
    if (rank < size - 1) MPI_Send(&rank, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
    return;
  }
  rush(rushed * 3000);
  if (rank == 0) IS((fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0644)) >= 0);
  if (rank == 0 && !strcmp(way, "headed")) {
    close(fd);
    IS((fd = open(path, O_WRONLY | O_APPEND)) >= 0);
    IS(write(fd, data, FEW) == FEW);
  }
  if (strcmp(way, "rushed-all")) MPI_Barrier(MPI_COMM_WORLD);
  else rush(1);
  if (rank > 0) IS((fd = open(path, O_RDWR)) >= 0);
  if (!strcmp(way, "headed")) {
    if (rank > 0) IS(pwrite(fd, data, BYTES, FEW + rank * (off_t)BYTES) == BYTES);
  } else if (!strcmp(way, "pieces") || rushed) {
    IS(pwrite(fd, data, BYTES, rank * (off_t)BYTES) == BYTES);
  } else if (!strcmp(way, "longer")) {
    if (rank == 0) IS(ftruncate(fd, 10) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) IS(posix_fallocate(fd, 0, size * (off_t)BYTES + FEW) == 0);
    IS(pwrite(fd, data, BYTES, rank * (off_t)BYTES) == BYTES);
  } else if (!strcmp(way, "posix-strides")) {
    for (off_t i = 0; i < BYTES / PIECE; i++)
      IS(pwrite(fd, data, PIECE, (i * size + rank) * PIECE) == PIECE);
  } else if (!strcmp(way, "overlaps")) {
    IS(pwrite(fd, data, BYTES, rank * (off_t)BYTES / 2) == BYTES);
  } else if (!strcmp(way, "mapped")) {
    if (rank == 0) IS(ftruncate(fd, size * (off_t)BYTES) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, rank * (off_t)BYTES);
    IS(own != MAP_FAILED);
    memcpy(own, data, BYTES);
    close(fd);
    munmap(own, BYTES);
    return;
  }
  close(fd);
}

int main(int argc, char **argv) {
  static const char *const posix[] = {"turns",  "pieces", "posix-strides", "overlaps",
                                      "mapped", "longer", "rushed",        "rushed-all",
                                      "headed"};
  int steps = argc > 2 ? atoi(argv[2]) : 2, plain = 0, first = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char *way = argv[1], *name = "all.dat";
  first = rank == 0;
  all = MPI_COMM_WORLD;
  if (!strncmp(way, "half-", 5)) {
    way += 5;
    if (rank % 2) name = "odd.dat";
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &all);
    MPI_Comm_rank(all, &rank);
  }
  MPI_Comm_size(all, &size);
  data = malloc(BYTES);
  for (size_t i = 0; i < sizeof posix / sizeof *posix; i++) plain |= !strcmp(way, posix[i]);
  for (step = 1; step <= steps; step++) {
    snprintf(path, sizeof path, "ckpt/step_%d", step);
    mkdir("ckpt", 0777);
    if (!strncmp(way, "renamed-directory", 17)) strcat(path, ".tmp");
    mkdir(path, 0777);
    snprintf(path, sizeof path, "ckpt/step_%d", step);
    strcat(strcat(path, "/"), name);
    memset(data, 'a' + (rank + step) % 26, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(way, "clobbered")) clobbered();
    else if (plain) by_posix(way);
    else by_mpi(way);
    int waits = 10 + (int)(10 * late_seconds / 0.02);
    for (int i = 0; i < waits; i++) {
      MPI_Barrier(MPI_COMM_WORLD);
      usleep(20000);
    }
  }
  /* With a third word the first rank makes that file, and all wait until it is gone. */
  if (argc > 3 && first) {
    int made = open(argv[3], O_CREAT | O_WRONLY, 0644);
    close(made);
    while (access(argv[3], F_OK) == 0) usleep(10000);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  free(data);
  MPI_Finalize();
  return 0;
}
