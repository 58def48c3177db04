/* Prints the kinds of file systems that MPI-IO sees when it makes files, in the prefix and in a
 * folder of it, and that the program sees there afterwards. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

int MPI_Init(int *, char ***);
int MPI_File_open(int, const char *, int, int, long *);
int MPI_Finalize(void);

int main(int argc, char **argv)
{
    char here[PATH_MAX], path[PATH_MAX + 16];
    long seen = 0;
    struct statfs found;
    MPI_Init(&argc, &argv);
    if (!realpath(".", here)) return 1;
    mkdir("dir", 0777);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", here, i == 0 ? "made" : "dir/made");
        MPI_File_open(0, path, 0, 0, &seen);
        *strrchr(path, '/') = 0;
        if (statfs(path, &found) != 0) return 1;
        printf("%lx %lx\n", seen, (long)found.f_type);
    }
    return MPI_Finalize();
}
