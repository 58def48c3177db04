! Old Fortran binding: one barrier, one allreduce, one duplicate.
program mpif
  use mpi
  implicit none
  integer :: error, comm, a, b
  call mpi_init(error)
  a = 1
  call mpi_barrier(MPI_COMM_WORLD, error)
  call mpi_allreduce(a, b, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  call mpi_comm_dup(MPI_COMM_WORLD, comm, error)
  call mpi_comm_free(comm, error)
  call mpi_finalize(error)
end program
