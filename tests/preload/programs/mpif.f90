! Old Fortran binding: one barrier, one allreduce, one duplicate, three calls on a file.
program mpif
  use mpi
  implicit none
  integer :: error, comm, a, b, file
  call mpi_init(error)
  a = 1
  call mpi_barrier(MPI_COMM_WORLD, error)
  call mpi_allreduce(a, b, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  call mpi_comm_dup(MPI_COMM_WORLD, comm, error)
  call mpi_comm_free(comm, error)
  call mpi_file_open(MPI_COMM_WORLD, 'shared', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, &
                     file, error)
  call mpi_file_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', &
                         MPI_INFO_NULL, error)
  call mpi_file_write_all(file, a, 1, MPI_INTEGER, MPI_STATUS_IGNORE, error)
  call mpi_file_close(file, error)
  call mpi_finalize(error)
end program
