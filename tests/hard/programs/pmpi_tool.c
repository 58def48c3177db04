/* A profiling tool as a preload of its own: counts MPI_Allreduce, MPI_Barrier, MPI_Init and
 * MPI_Finalize and writes the counts of rank 0 to the file that TOOL_OUT names. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long inits, allreduces, barriers, finalizes;

int MPI_Init(int *argc, char ***argv) { inits++; return PMPI_Init(argc, argv); }
int MPI_Barrier(MPI_Comm comm) { barriers++; return PMPI_Barrier(comm); }
int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  allreduces++;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Finalize(void) {
  int rank;
  finalizes++;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && getenv("TOOL_OUT")) {
    FILE *file = fopen(getenv("TOOL_OUT"), "w");
    if (file) {
      fprintf(file, "init %ld allreduce %ld barrier %ld finalize %ld\n", inits, allreduces,
              barriers, finalizes);
      fclose(file);
    }
  }
  return PMPI_Finalize();
}
