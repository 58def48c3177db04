! Modern Fortran binding: one barrier, one allreduce, one duplicate, three calls on a file.
program f08
  use mpi_f08
  implicit none
  type(MPI_Comm) :: comm
  type(MPI_File) :: file
  integer :: a, b
  call MPI_Init()
  a = 1
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Allreduce(a, b, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_free(comm)
  call MPI_File_open(MPI_COMM_WORLD, 'shared', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file)
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
  call MPI_File_write_all(file, a, 1, MPI_INTEGER, MPI_STATUS_IGNORE)
  call MPI_File_close(file)
  call MPI_Finalize()
end program
