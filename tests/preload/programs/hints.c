/* Opens a file with an Info and one without, and prints what MPI-IO says that it was told. */
#include <mpi.h>
#include <stdio.h>

static void tell(MPI_Info told)
{
    const char *const keys[] = { "romio_cb_write", "romio_ds_write", "cb_nodes", "striping_unit" };
    MPI_File file;
    MPI_Info info;
    int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
    if (MPI_File_open(MPI_COMM_WORLD, "shared", mode, told, &file)) return;
    MPI_File_get_info(file, &info);
    for (int i = 0; i < 4; i++) {
        char value[MPI_MAX_INFO_VAL + 1];
        int known = 0;
        MPI_Info_get(info, keys[i], MPI_MAX_INFO_VAL, value, &known);
        printf("%s%s", known ? value : "-", i < 3 ? " " : "\n");
    }
    MPI_Info_free(&info);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    MPI_Info own;
    int keys;
    MPI_Init(&argc, &argv);
    MPI_Info_create(&own);
    MPI_Info_set(own, "striping_unit", "65536");
    MPI_Info_set(own, "romio_ds_write", "enable");
    tell(own);
    tell(MPI_INFO_NULL);
    MPI_Info_get_nkeys(own, &keys);
    printf("%d\n", keys);
    MPI_Info_free(&own);
    return MPI_Finalize();
}
