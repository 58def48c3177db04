/* A file is made by argv[1]: what the program sees of it, and that it cannot be made twice. */
#include "check.h"

static int make(const char *how, const char *path)
{
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    if (!strcmp(how, "open")) return open(path, flags, 0664);
    if (!strcmp(how, "exclusive")) return open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (!strcmp(how, "openat")) return openat(AT_FDCWD, path, flags, 0666);
    if (!strcmp(how, "creat")) return creat(path, 0640);
    return fileno(fopen(path, "w"));
}

int main(int argc, char **argv)
{
    struct stat found;
    umask(022);
    CHECK(argc == 3 && MPI_Init(&argc, &argv) == 0);
    int fd = make(argv[1], argv[2]);
    CHECK(fstat(fd, &found) == 0);
    printf("size %ld mode %o\n", (long)found.st_size, found.st_mode & 07777);
    CHECK(write(fd, "content", 7) == 7 && fstat(fd, &found) == 0);
    printf("size %ld\n", (long)found.st_size);
    int again = open(argv[2], O_WRONLY | O_CREAT | O_EXCL, 0600);
    printf("again %d\n", again == -1 ? errno : 0);
    CHECK(close(fd) == 0);
    return MPI_Finalize();
}
