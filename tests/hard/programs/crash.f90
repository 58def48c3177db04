! Rank 0 ends as its argument says: "abort", or "heap": free(3) finds that the heap is damaged, and
! aborts while it is held. The run-time system has a handler that looks for the program's own file.
program crash
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    function taken(bytes) bind(c, name='malloc') result(block)
      import
      integer(c_size_t), value :: bytes
      type(c_ptr) :: block
    end function
    subroutine release(block) bind(c, name='free')
      import
      type(c_ptr), value :: block
    end subroutine
  end interface
  integer :: code, rank, at
  character(len=16) :: how
  type(c_ptr) :: blocks(3)
  integer(c_intptr_t), pointer, volatile :: links(:)

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call get_command_argument(1, how)
  if (rank == 0 .and. how == 'abort') call abort
  if (rank == 0 .and. how == 'heap') then
    do at = 1, 3
      blocks(at) = taken(4000_c_size_t)
    end do
    call c_f_pointer(blocks(1), links, [2])
    call release(blocks(1))
    links = transfer(blocks(3), 0_c_intptr_t)
    call release(blocks(2))
  end if
  call MPI_Barrier(MPI_COMM_WORLD, code)
  call MPI_Finalize(code)
end program
