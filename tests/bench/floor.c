/* What XOR cannot do without, and nothing else: bytes are read, sent, and written, without any sum
 * or checksum. How fast that is on this machine is a bound for every program that does it by MPI.
 *
 * usage: floor MIB DIRECTORY ROUNDS  prints for each round the seconds of
 *   - protecting: every rank sends each third of its MIB to another rank, and writes as much as a
 *     third of what it gets
 *   - rebuilding: what all ranks but the last have, MIB and a third, goes from rank to rank, and
 *     the last one writes it */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 256 << 10, LANES = 2, RANKS = 4, THIRDS = RANKS - 1 };

static int rank;
static char directory[4000];
static char *out[LANES][THIRDS], *into[LANES][THIRDS];

static void fail(const char *what) {
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int open_file(const char *name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s_%d", directory, name, rank);
  if (flags & O_CREAT) unlink(path);
  int fd = open(path, flags, 0600);
  if (fd < 0) fail(path);
  return fd;
}

static void read_piece(int fd, char *to, size_t piece) {
  if (pread(fd, to, PIECE, (off_t)(piece * PIECE)) != PIECE) fail("pread");
}

static void write_piece(int fd, const char *from, size_t piece) {
  if (pwrite(fd, from, PIECE, (off_t)(piece * PIECE)) != PIECE) fail("pwrite");
}

static void protect(size_t pieces) {
  int data = open_file("data", O_RDONLY), parity = open_file("new", O_CREAT | O_WRONLY);
  size_t third = pieces / THIRDS;
  MPI_Request all[LANES][2 * THIRDS];
  for (size_t piece = 0; piece <= third; piece++) {
    int lane = piece % LANES, before = 1 - lane;
    for (int part = 0; piece < third && part < THIRDS; part++) {
      int to = (rank + 1 + part) % RANKS, from = (rank + RANKS - 1 - part) % RANKS;
      read_piece(data, out[lane][part], part * third + piece);
      MPI_Irecv(into[lane][part], PIECE, MPI_BYTE, from, 0, MPI_COMM_WORLD, &all[lane][part]);
      MPI_Isend(out[lane][part], PIECE, MPI_BYTE, to, 0, MPI_COMM_WORLD, &all[lane][THIRDS + part]);
    }
    if (piece == 0) continue;
    MPI_Waitall(2 * THIRDS, all[before], MPI_STATUSES_IGNORE);
    write_piece(parity, into[before][0], piece - 1);
  }
  close(data);
  close(parity);
}

static void rebuild(size_t pieces) {
  int first = rank == 0, last = rank == RANKS - 1;
  int file = last ? open_file("new", O_CREAT | O_WRONLY) : open_file("data", O_RDONLY);
  MPI_Request coming[LANES], going[LANES] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  for (int lane = 0; !first && lane < LANES; lane++)
    MPI_Irecv(into[lane][0], PIECE, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, &coming[lane]);
  for (size_t piece = 0; piece < pieces; piece++) {
    int lane = piece % LANES;
    MPI_Wait(&going[lane], MPI_STATUS_IGNORE);
    if (!last) read_piece(file, out[lane][0], piece);
    if (!first) {
      MPI_Wait(&coming[lane], MPI_STATUS_IGNORE);
      if (last) write_piece(file, into[lane][0], piece);
      if (piece + LANES < pieces)
        MPI_Irecv(into[lane][0], PIECE, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, &coming[lane]);
    }
    if (!last)
      MPI_Isend(out[lane][0], PIECE, MPI_BYTE, rank + 1, 0, MPI_COMM_WORLD, &going[lane]);
  }
  MPI_Waitall(LANES, going, MPI_STATUSES_IGNORE);
  close(file);
}

static double seconds_of(void (*act)(size_t), size_t pieces) {
  MPI_Barrier(MPI_COMM_WORLD);
  double begun = MPI_Wtime();
  act(pieces);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime() - begun;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(directory, sizeof directory, "%s", argv[2]);
  size_t pieces = ((size_t)atoi(argv[1]) << 20) / PIECE, with_parity = pieces + pieces / THIRDS;
  for (int lane = 0; lane < LANES; lane++)
    for (int part = 0; part < THIRDS; part++) {
      out[lane][part] = malloc(PIECE);
      into[lane][part] = malloc(PIECE);
      memset(out[lane][part], rank + 1, PIECE);
      memset(into[lane][part], 0, PIECE);
    }
  int fd = open_file("data", O_CREAT | O_WRONLY);
  for (size_t piece = 0; piece < with_parity; piece++) write_piece(fd, out[0][0], piece);
  close(fd);
  for (int round = 0; round < atoi(argv[3]); round++) {
    double protecting = seconds_of(protect, pieces), rebuilding = seconds_of(rebuild, with_parity);
    if (rank == 0) printf("%.6f %.6f\n", protecting, rebuilding);
  }
  MPI_Finalize();
  return 0;
}
