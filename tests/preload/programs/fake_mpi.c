/* As much of an MPI as the shim asks for. */
#define BOTH(name, ...) int MPI_##name(__VA_ARGS__) __attribute__((alias("PMPI_" #name)))

#include <string.h>
#include <sys/vfs.h>

static int initialized;

int PMPI_Init(int *argc, char ***argv) { (void)argc; (void)argv; initialized = 1; return 0; }
int PMPI_Finalize(void) { return 0; }
int PMPI_Barrier(int comm) { (void)comm; return 0; }
int PMPI_Initialized(int *flag) { *flag = initialized; return 0; }
/* As ROMIO does before it makes a file; the "handle" is the kind of file system it sees. */
int PMPI_File_open(int comm, const char *name, int mode, int info, long *file)
{
    char directory[4096];
    struct statfs found;
    (void)comm, (void)mode, (void)info;
    strcpy(directory, name);
    *strrchr(directory, '/') = 0;
    *file = statfs(directory, &found) == 0 ? (long)found.f_type : -1;
    return 0;
}
BOTH(File_open, int, const char *, int, int, long *);
BOTH(Init, int *, char ***);
BOTH(Finalize, void);
BOTH(Barrier, int);
BOTH(Initialized, int *);
