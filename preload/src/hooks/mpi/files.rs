//! MPI-IO: what it calls and opens inside itself passes our hooks and must not count. So only the
//! depth matters, and the name of the file at its open. As in [`super::calls`] arguments are
//! register-wide integers.

use super::calls::{Role, mpi, mpi_one};

macro_rules! of_a_file {
    ($role:ident: $( $arguments:tt $($c:ident $p:ident),+; )+) => { $( $(
        mpi_one! { $c $arguments => Role::$role }
        mpi_one! { $p $arguments => Role::$role }
    )+ )+ };
}

mpi! {
    (MPI_File_open, PMPI_File_open, comm name amode info file) => Role::FileOpen;
    (MPI_File_close, PMPI_File_close, place) => Role::FileClose;
}

// Blocking and collective.
of_a_file! { FileSync:
    (file)
        MPI_File_sync PMPI_File_sync;
    (file a)
        MPI_File_set_atomicity PMPI_File_set_atomicity;
    (file a b c d)
        MPI_File_read_all PMPI_File_read_all,
        MPI_File_read_ordered PMPI_File_read_ordered,
        MPI_File_write_all PMPI_File_write_all,
        MPI_File_write_ordered PMPI_File_write_ordered;
    (file a b c d e)
        MPI_File_read_at_all PMPI_File_read_at_all,
        MPI_File_set_view PMPI_File_set_view,
        MPI_File_write_at_all PMPI_File_write_at_all;
}

of_a_file! { FileSize:
    (file a)
        MPI_File_preallocate PMPI_File_preallocate,
        MPI_File_set_size PMPI_File_set_size;
}

of_a_file! { File:
    (file a)
        MPI_File_delete PMPI_File_delete,
        MPI_File_get_atomicity PMPI_File_get_atomicity,
        MPI_File_get_info PMPI_File_get_info,
        MPI_File_get_position PMPI_File_get_position,
        MPI_File_get_position_shared PMPI_File_get_position_shared,
        MPI_File_get_size PMPI_File_get_size,
        MPI_File_set_info PMPI_File_set_info;
    (file a b)
        MPI_File_read_all_end PMPI_File_read_all_end,
        MPI_File_read_at_all_end PMPI_File_read_at_all_end,
        MPI_File_read_ordered_end PMPI_File_read_ordered_end,
        MPI_File_seek PMPI_File_seek,
        MPI_File_seek_shared PMPI_File_seek_shared,
        MPI_File_write_all_end PMPI_File_write_all_end,
        MPI_File_write_at_all_end PMPI_File_write_at_all_end,
        MPI_File_write_ordered_end PMPI_File_write_ordered_end;
    (file a b c)
        MPI_File_read_all_begin PMPI_File_read_all_begin,
        MPI_File_read_ordered_begin PMPI_File_read_ordered_begin,
        MPI_File_write_all_begin PMPI_File_write_all_begin,
        MPI_File_write_ordered_begin PMPI_File_write_ordered_begin;
    (file a b c d)
        MPI_File_get_view PMPI_File_get_view,
        MPI_File_iread PMPI_File_iread,
        MPI_File_iread_all PMPI_File_iread_all,
        MPI_File_iread_shared PMPI_File_iread_shared,
        MPI_File_iwrite PMPI_File_iwrite,
        MPI_File_iwrite_all PMPI_File_iwrite_all,
        MPI_File_iwrite_shared PMPI_File_iwrite_shared,
        MPI_File_read PMPI_File_read,
        MPI_File_read_at_all_begin PMPI_File_read_at_all_begin,
        MPI_File_read_shared PMPI_File_read_shared,
        MPI_File_write PMPI_File_write,
        MPI_File_write_at_all_begin PMPI_File_write_at_all_begin,
        MPI_File_write_shared PMPI_File_write_shared;
    (file a b c d e)
        MPI_File_iread_at PMPI_File_iread_at,
        MPI_File_iread_at_all PMPI_File_iread_at_all,
        MPI_File_iwrite_at PMPI_File_iwrite_at,
        MPI_File_iwrite_at_all PMPI_File_iwrite_at_all,
        MPI_File_read_at PMPI_File_read_at,
        MPI_File_write_at PMPI_File_write_at;
}
