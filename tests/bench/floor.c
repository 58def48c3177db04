/* What redundancy cannot do without, and nothing else: bytes are read, sent, and written over older
 * ones, without any sum or checksum. How fast that is on this machine is a bound for every program
 * that does it by MPI.
 *
 * usage: floor MIB DIRECTORY ROUNDS  prints for each round the seconds of
 *   - protecting MIB a rank with each of SCHEMES
 *   - rebuilding XOR's: what all ranks but the last have, MIB and a third, goes from rank to rank,
 *     and the last one writes it */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 256 << 10, LANES = 2, RANKS = 4, OTHERS = RANKS - 1 };

/* What a rank of four reads, sends and writes, in pieces; it is sent as much as it sends. With RS
 * of k it reads 4 - k pieces and sends each to a rank that computes k of parity, of which that one
 * sends all but one on; and it keeps k. */
static const struct scheme {
  int reads, sends, writes;
} SCHEMES[] = {
    {1, 1, 1}, /* PARTNER */
    {3, 3, 1}, /* XOR */
    {2, 3, 2}, /* RS, 2 losses */
    {1, 3, 3}, /* RS, 3 losses */
};
enum { COUNT = sizeof SCHEMES / sizeof *SCHEMES };

static int rank;
static char directory[4000];
static char *out[LANES][OTHERS], *into[LANES][OTHERS];

static void fail(const char *what) {
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int open_file(const char *name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s_%d", directory, name, rank);
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

static void protect(const struct scheme *scheme, size_t pieces) {
  int data = open_file("data", O_RDONLY), parity = open_file("parity", O_CREAT | O_WRONLY);
  size_t steps = pieces / scheme->reads;
  int sends = scheme->sends;
  MPI_Request all[LANES][2 * OTHERS];
  for (size_t step = 0; step <= steps; step++) {
    int lane = step % LANES, before = 1 - lane;
    for (int part = 0; step < steps && part < sends; part++) {
      int to = (rank + 1 + part) % RANKS, from = (rank + RANKS - 1 - part) % RANKS;
      if (part < scheme->reads) read_piece(data, out[lane][part], part * steps + step);
      MPI_Irecv(into[lane][part], PIECE, MPI_BYTE, from, 0, MPI_COMM_WORLD, &all[lane][part]);
      MPI_Isend(out[lane][part], PIECE, MPI_BYTE, to, 0, MPI_COMM_WORLD, &all[lane][sends + part]);
    }
    if (step == 0) continue;
    MPI_Waitall(2 * sends, all[before], MPI_STATUSES_IGNORE);
    for (int part = 0; part < scheme->writes; part++)
      write_piece(parity, into[before][part], part * steps + step - 1);
  }
  close(data);
  close(parity);
}

static void rebuild(size_t pieces) {
  int first = rank == 0, last = rank == RANKS - 1;
  int file = last ? open_file("restored", O_CREAT | O_WRONLY) : open_file("data", O_RDONLY);
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

static double together(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(directory, sizeof directory, "%s", argv[2]);
  size_t pieces = ((size_t)atoi(argv[1]) << 20) / PIECE, with_parity = pieces + pieces / OTHERS;
  for (int lane = 0; lane < LANES; lane++)
    for (int part = 0; part < OTHERS; part++) {
      out[lane][part] = malloc(PIECE);
      into[lane][part] = malloc(PIECE);
      memset(out[lane][part], rank + 1, PIECE);
      memset(into[lane][part], 0, PIECE);
    }
  int fd = open_file("data", O_CREAT | O_WRONLY);
  for (size_t piece = 0; piece < with_parity; piece++) write_piece(fd, out[0][0], piece);
  close(fd);
  for (int round = 0; round < atoi(argv[3]); round++) {
    double seconds[COUNT + 1];
    for (int each = 0; each <= COUNT; each++) {
      double begun = together();
      if (each < COUNT)
        protect(&SCHEMES[each], pieces);
      else
        rebuild(with_parity);
      seconds[each] = together() - begun;
    }
    for (int each = 0; rank == 0 && each <= COUNT; each++)
      printf("%.6f%c", seconds[each], each < COUNT ? ' ' : '\n');
  }
  MPI_Finalize();
  return 0;
}
