! Each rank rewrites its only checkpoint, `state.R`, every few milliseconds by OPEN as gfortran does
! it by default: without cutting the file short, which is done at the close. It says which step it
! finds, and goes on from there. usage: default_open STEPS MILLISECONDS
program default_open
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    function usleep(microseconds) bind(c, name='usleep') result(status)
      import
      integer(c_int), value :: microseconds
      integer(c_int) :: status
    end function
  end interface
  integer :: code, rank, steps, milliseconds, step, found, at
  integer :: field(4096)
  character(len=32) :: word, name
  logical :: there

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call get_command_argument(1, word)
  read (word, *) steps
  call get_command_argument(2, word)
  read (word, *) milliseconds
  write (name, '(a,i0)') 'state.', rank
  found = 0
  inquire (file=name, exist=there)
  if (there) then
    open (10, file=name, form='unformatted')
    read (10) found
    read (10) field
    close (10)
    if (any(field /= found)) found = -1
  end if
  write (*, '(a,i0,a,i0)') 'rank ', rank, ': ', found
  do step = found + 1, found + steps
    field = step
    open (10, file=name, form='unformatted')
    write (10) step
    write (10) field
    close (10)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    do at = 1, 2
      code = usleep(int(milliseconds * 500, c_int))
      call MPI_Barrier(MPI_COMM_WORLD, code)
    end do
  end do
  call MPI_Finalize(code)
end program
