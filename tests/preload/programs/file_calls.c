/* Every blocking collective call on a file once; then calls that are none, and a file of one rank
 * after the first is closed. With an argument: but for iwrite_all, which Open MPI's ROMIO lacks. */
#include <mpi.h>

#define ALL(call) MPI_File_##call
#define TYPED a, 1, MPI_INT, MPI_STATUS_IGNORE

int main(int argc, char **argv)
{
    int a[4] = { 1 }, mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_File f;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_File_open(MPI_COMM_WORLD, "shared", mode, MPI_INFO_NULL, &f);
    ALL(set_view)(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    ALL(set_size)(f, 64);
    ALL(preallocate)(f, 64);
    ALL(set_atomicity)(f, 0);
    ALL(write_all)(f, TYPED);
    ALL(write_at_all)(f, 1, TYPED);
    ALL(write_ordered)(f, TYPED);
    ALL(sync)(f);
    ALL(read_all)(f, TYPED);
    ALL(read_at_all)(f, 0, TYPED);
    ALL(read_ordered)(f, TYPED);
    /* None of these is to count. */
    ALL(write_all_begin)(f, a, 1, MPI_INT);
    ALL(write_all_end)(f, a, MPI_STATUS_IGNORE);
    if (argc == 1) {
        ALL(iwrite_all)(f, a, 1, MPI_INT, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    ALL(write_at)(f, 0, TYPED);
    MPI_Offset size;
    ALL(get_size)(f, &size);
    ALL(seek)(f, 0, MPI_SEEK_SET);
    ALL(close)(&f);
    ALL(open)(MPI_COMM_SELF, "none/missing", MPI_MODE_RDONLY, MPI_INFO_NULL, &f);
    MPI_Finalize();
    return 0;
}
