/* Writes one file after MPI_Init. */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(MPI_Init(&argc, &argv) == 0);
    int fd = open("c_file", O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
    CHECK(MPI_Barrier(0) == 0 && MPI_Finalize() == 0);
    puts("plain");
    return 0;
}
