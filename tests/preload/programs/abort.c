/* Rank 0 ends the job, under one of the function's two names, while the others wait for it. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, word;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return argc > 1 ? PMPI_Abort(MPI_COMM_WORLD, 7) : MPI_Abort(MPI_COMM_WORLD, 7);
}
