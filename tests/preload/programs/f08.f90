! Modern Fortran binding: one barrier, one allreduce, one duplicate.
program f08
  use mpi_f08
  implicit none
  type(MPI_Comm) :: comm
  integer :: a, b
  call MPI_Init()
  a = 1
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Allreduce(a, b, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_free(comm)
  call MPI_Finalize()
end program
