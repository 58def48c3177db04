/* Leaves files open: a stream with buffered text, a descriptor, a mapping. One more is written by a
 * destructor, as the run-time system of Fortran does. */
#include "check.h"

static int late = -1;

__attribute__((destructor)) static void at_the_end(void)
{
    if (late >= 0) CHECK(write(late, "late", 4) == 4 && close(late) == 0);
}

int main(int argc, char **argv)
{
    CHECK(MPI_Init(&argc, &argv) == 0);
    FILE *s = fopen("c_stream", "w"), *t = fdopen(open("c_fdopen", O_CREAT | O_WRONLY, 0644), "w");
    CHECK(s && fputs("text", s) >= 0 && t && fputs("more", t) >= 0);
    late = open("c_late", O_CREAT | O_WRONLY, 0644);
    CHECK(late >= 0 && open("c_descriptor", O_CREAT | O_WRONLY, 0644) >= 0);
    if (argc == 1) CHECK(MPI_Finalize() == 0);
    mark("main ends");
    return 0;
}
