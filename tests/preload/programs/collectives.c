/* Every hooked collective once, at world size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int granted, size, rank, a[64] = { 0 }, b[64], ones[16], at[16];
    int dims[1], periods[1] = { 0 };
    MPI_Comm c;
    MPI_Group g;
    MPI_Datatype types[16];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &granted);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    dims[0] = size;
    for (int i = 0; i < size; i++) ones[i] = 1, at[i] = i, types[i] = MPI_INT;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Alltoall(a, 1, MPI_INT, b, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoallv(a, ones, at, MPI_INT, b, ones, at, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) at[i] = 4 * i;
    MPI_Alltoallw(a, ones, at, types, b, ones, at, types, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) at[i] = i;
    MPI_Allgather(a, 1, MPI_INT, b, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgatherv(a, 1, MPI_INT, b, ones, at, MPI_INT, MPI_COMM_WORLD);
    MPI_Reduce_scatter(a, b, ones, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(a, b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_free(&c);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &c);
    MPI_Comm_free(&c);
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &c);
    MPI_Comm_free(&c);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &c);
    MPI_Comm_free(&c);
    MPI_Comm_group(MPI_COMM_WORLD, &g);
    MPI_Comm_create(MPI_COMM_WORLD, g, &c);
    MPI_Comm_free(&c);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &c);
    MPI_Comm_free(&c);
    /* These do not count, nor does what they call inside. */
    MPI_Bcast(a, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Comm_create_group(MPI_COMM_WORLD, g, 1, &c);
    MPI_Comm_free(&c);
    MPI_Group_free(&g);
    MPI_File f;
    MPI_File_open(MPI_COMM_WORLD, "shared", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f);
    MPI_File_write_at_all(f, rank * 4, a, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&f);
    MPI_Finalize();
    return 0;
}
