//! MPI-IO: the collectives that it calls inside itself pass our hooks and must not count.
//!
//! Only the depth matters here, and the name of the file at its open: what else MPI-IO opens
//! inside its calls is its own (locks, trials of them, shared file pointers beside the file). The
//! arguments are register-wide integers as in [`super::calls`]; their number is all that differs.

use super::calls::{Role, mpi};

mpi! {
    ("File_open", MPI_File_open, PMPI_File_open, comm name amode info file) => Role::FileOpen;
    ("File_close", MPI_File_close, PMPI_File_close, file) => Role::FileClose;
    ("File_sync", MPI_File_sync, PMPI_File_sync, file) => Role::FileSync;
    ("File_delete", MPI_File_delete, PMPI_File_delete, file a) => Role::File;
    ("File_get_atomicity", MPI_File_get_atomicity, PMPI_File_get_atomicity, file a) => Role::File;
    ("File_get_info", MPI_File_get_info, PMPI_File_get_info, file a) => Role::File;
    ("File_get_position", MPI_File_get_position, PMPI_File_get_position, file a) => Role::File;
    ("File_get_position_shared", MPI_File_get_position_shared, PMPI_File_get_position_shared,
        file a)
        => Role::File;
    ("File_get_size", MPI_File_get_size, PMPI_File_get_size, file a) => Role::File;
    ("File_preallocate", MPI_File_preallocate, PMPI_File_preallocate, file a) => Role::FileSync;
    ("File_set_atomicity", MPI_File_set_atomicity, PMPI_File_set_atomicity, file a) => Role::FileSync;
    ("File_set_info", MPI_File_set_info, PMPI_File_set_info, file a) => Role::File;
    ("File_set_size", MPI_File_set_size, PMPI_File_set_size, file a) => Role::FileSync;
    ("File_read_all_end", MPI_File_read_all_end, PMPI_File_read_all_end, file a b) => Role::File;
    ("File_read_at_all_end", MPI_File_read_at_all_end, PMPI_File_read_at_all_end, file a b)
        => Role::File;
    ("File_read_ordered_end", MPI_File_read_ordered_end, PMPI_File_read_ordered_end, file a b)
        => Role::File;
    ("File_seek", MPI_File_seek, PMPI_File_seek, file a b) => Role::File;
    ("File_seek_shared", MPI_File_seek_shared, PMPI_File_seek_shared, file a b) => Role::File;
    ("File_write_all_end", MPI_File_write_all_end, PMPI_File_write_all_end, file a b)
        => Role::File;
    ("File_write_at_all_end", MPI_File_write_at_all_end, PMPI_File_write_at_all_end, file a b)
        => Role::File;
    ("File_write_ordered_end", MPI_File_write_ordered_end, PMPI_File_write_ordered_end, file a b)
        => Role::File;
    ("File_read_all_begin", MPI_File_read_all_begin, PMPI_File_read_all_begin, file a b c)
        => Role::File;
    ("File_read_ordered_begin", MPI_File_read_ordered_begin, PMPI_File_read_ordered_begin,
        file a b c)
        => Role::File;
    ("File_write_all_begin", MPI_File_write_all_begin, PMPI_File_write_all_begin, file a b c)
        => Role::File;
    ("File_write_ordered_begin", MPI_File_write_ordered_begin, PMPI_File_write_ordered_begin,
        file a b c)
        => Role::File;
    ("File_get_view", MPI_File_get_view, PMPI_File_get_view, file a b c d) => Role::File;
    ("File_iread", MPI_File_iread, PMPI_File_iread, file a b c d) => Role::File;
    ("File_iread_all", MPI_File_iread_all, PMPI_File_iread_all, file a b c d) => Role::File;
    ("File_iread_shared", MPI_File_iread_shared, PMPI_File_iread_shared, file a b c d)
        => Role::File;
    ("File_iwrite", MPI_File_iwrite, PMPI_File_iwrite, file a b c d) => Role::File;
    ("File_iwrite_all", MPI_File_iwrite_all, PMPI_File_iwrite_all, file a b c d) => Role::File;
    ("File_iwrite_shared", MPI_File_iwrite_shared, PMPI_File_iwrite_shared, file a b c d)
        => Role::File;
    ("File_read", MPI_File_read, PMPI_File_read, file a b c d) => Role::File;
    ("File_read_all", MPI_File_read_all, PMPI_File_read_all, file a b c d) => Role::FileSync;
    ("File_read_at_all_begin", MPI_File_read_at_all_begin, PMPI_File_read_at_all_begin,
        file a b c d)
        => Role::File;
    ("File_read_ordered", MPI_File_read_ordered, PMPI_File_read_ordered, file a b c d)
        => Role::FileSync;
    ("File_read_shared", MPI_File_read_shared, PMPI_File_read_shared, file a b c d) => Role::File;
    ("File_write", MPI_File_write, PMPI_File_write, file a b c d) => Role::File;
    ("File_write_all", MPI_File_write_all, PMPI_File_write_all, file a b c d) => Role::FileSync;
    ("File_write_at_all_begin", MPI_File_write_at_all_begin, PMPI_File_write_at_all_begin,
        file a b c d)
        => Role::File;
    ("File_write_ordered", MPI_File_write_ordered, PMPI_File_write_ordered, file a b c d)
        => Role::FileSync;
    ("File_write_shared", MPI_File_write_shared, PMPI_File_write_shared, file a b c d)
        => Role::File;
    ("File_iread_at", MPI_File_iread_at, PMPI_File_iread_at, file a b c d e) => Role::File;
    ("File_iread_at_all", MPI_File_iread_at_all, PMPI_File_iread_at_all, file a b c d e)
        => Role::File;
    ("File_iwrite_at", MPI_File_iwrite_at, PMPI_File_iwrite_at, file a b c d e) => Role::File;
    ("File_iwrite_at_all", MPI_File_iwrite_at_all, PMPI_File_iwrite_at_all, file a b c d e)
        => Role::File;
    ("File_read_at", MPI_File_read_at, PMPI_File_read_at, file a b c d e) => Role::File;
    ("File_read_at_all", MPI_File_read_at_all, PMPI_File_read_at_all, file a b c d e)
        => Role::FileSync;
    ("File_set_view", MPI_File_set_view, PMPI_File_set_view, file a b c d e) => Role::FileSync;
    ("File_write_at", MPI_File_write_at, PMPI_File_write_at, file a b c d e) => Role::File;
    ("File_write_at_all", MPI_File_write_at_all, PMPI_File_write_at_all, file a b c d e)
        => Role::FileSync;
}
