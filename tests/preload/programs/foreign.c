/* Names that are none of the engine's business are asked about once, and again when they may have
 * become something else. Each section opens a file whose name is the section's. */
#include "check.h"

static void touch(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && close(fd) == 0);
}

static void section(const char *name) { CHECK(access(name, F_OK) == -1); }

int main(int argc, char **argv)
{
    struct stat s;
    char absolute[4096];
    CHECK(MPI_Init(&argc, &argv) == 0);
    CHECK(mkdir("sub", 0755) == 0 && mkdir("sub/n_dir", 0755) == 0);
    touch("n_file");
    section("first");
    for (int i = 0; i < 10; i++) {
        touch("n_file");
        CHECK(stat("n_file", &s) == 0 && access("n_file", R_OK) == 0);
    }
    section("absolute");
    snprintf(absolute, sizeof absolute, "%s/n_file", getenv("FAKE_PREFIX"));
    for (int i = 0; i < 10; i++) touch(absolute);
    section("elsewhere");
    /* The same words, another file: in another directory, ours. */
    CHECK(symlink("../c_real", "sub/n_file") == 0 && chdir("sub") == 0);
    touch("n_file");
    CHECK(chdir("..") == 0 && in_cache("c_real"));
    section("changed");
    touch("n_file");
    touch("n_file");
    touch("x_changes");
    touch("n_file");
    section("link");
    /* A plain file gives way to a symlink into the cache. */
    CHECK(unlink("n_file") == 0 && symlink("c_linked", "n_file") == 0);
    touch("n_file");
    CHECK(in_cache("c_linked"));
    section("directories");
    CHECK(stat("sub/n_dir", &s) == 0 && stat("sub/n_dir", &s) == 0);
    CHECK(rmdir("sub/n_dir") == 0 && mkdir("sub/n_dir", 0755) == 0 && remove("sub/n_dir") == 0);
    section("end");
    CHECK(MPI_Finalize() == 0);
    return 0;
}
