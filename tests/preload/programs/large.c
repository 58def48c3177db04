/* The collectives of MPI 4 with counts of 64 bits, once each, and what they give; where the MPI has
 * none of them, this is without the shim as mpi4py does it: by weak references. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define WEAK(name, ...) extern int name(__VA_ARGS__) __attribute__((weak))
typedef const MPI_Count *counts;
typedef const MPI_Aint *places;
WEAK(MPI_Allreduce_c, const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
WEAK(MPI_Alltoall_c, const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype,
     MPI_Comm);
WEAK(MPI_Alltoallv_c, const void *, counts, places, MPI_Datatype, void *, counts, places,
     MPI_Datatype, MPI_Comm);
WEAK(MPI_Alltoallw_c, const void *, counts, places, const MPI_Datatype *, void *, counts, places,
     const MPI_Datatype *, MPI_Comm);
WEAK(MPI_Allgather_c, const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype,
     MPI_Comm);
WEAK(MPI_Allgatherv_c, const void *, MPI_Count, MPI_Datatype, void *, counts, places, MPI_Datatype,
     MPI_Comm);
WEAK(MPI_Reduce_scatter_c, const void *, void *, counts, MPI_Datatype, MPI_Op, MPI_Comm);
WEAK(MPI_Reduce_scatter_block_c, const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
WEAK(MPI_File_write_at_all_c, MPI_File, MPI_Offset, const void *, MPI_Count, MPI_Datatype,
     MPI_Status *);

#define GIVES(call)                                                                        \
    do {                                                                                   \
        for (int i = 0; i < 8; i++) b[i] = -1;                                             \
        if (call || b[0] != 41 || b[1] != -1) printf("wrong: %s %d %d\n", #call, b[0], b[1]); \
    } while (0)

int main(int argc, char **argv)
{
    int a[8] = { 41, 42 }, b[8];
    MPI_Count one[1] = { 1 }, huge = 1L << 40;
    MPI_Aint at[1] = { 0 };
    MPI_Datatype t = MPI_INT, types[1] = { MPI_INT };
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_File f;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN);
    if (!MPI_Allreduce_c) return puts("none"), MPI_Finalize();
    GIVES(MPI_Allreduce_c(a, b, 1, t, MPI_SUM, w));
    GIVES(MPI_Alltoall_c(a, 1, t, b, 1, t, w));
    GIVES(MPI_Alltoallv_c(a, one, at, t, b, one, at, t, w));
    GIVES(MPI_Alltoallw_c(a, one, at, types, b, one, at, types, w));
    GIVES(MPI_Allgather_c(a, 1, t, b, 1, t, w));
    GIVES(MPI_Allgatherv_c(a, 1, t, b, one, at, t, w));
    GIVES(MPI_Reduce_scatter_c(a, b, one, t, MPI_SUM, w));
    GIVES(MPI_Reduce_scatter_block_c(a, b, 1, t, MPI_SUM, w));
    /* What is not sent has no counts. */
    b[0] = 41, b[1] = -1;
    if (MPI_Alltoallv_c(MPI_IN_PLACE, (void *)8, (void *)8, t, b, one, at, t, w) || b[0] != 41)
        puts("wrong: in place");
    if (argc > 1 && MPI_Allgather_c(MPI_IN_PLACE, huge, t, b, huge, t, w) != MPI_ERR_COUNT)
        puts("wrong: too many");
    MPI_File_open(w, "shared", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f);
    if (MPI_File_write_at_all_c(f, 0, a, 1, t, MPI_STATUS_IGNORE)) puts("wrong: written");
    MPI_File_close(&f);
    puts("all");
    return MPI_Finalize();
}
