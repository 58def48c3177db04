! Heat on a ring with the module `mpi_f08`; stream files dump_<step>.<rank>. Even ranks write their
! own cells and those of the odd rank after them; odd ranks write nothing. The restart is told the
! step with --from, and begins at 0 otherwise.
program heat_f08
  use mpi_f08
  use heat_common
  implicit none
  double precision :: cells(cells_count), total, mine, from_left, from_right
  integer :: rank, ranks, step

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_arguments()
  call first_state(cells, rank)
  step = 0
  if (from > 0) call restart()
  if (rank == 0 .and. step > 0) write (*, '(a,i0)') 'going on from step ', step
  if (rank == 0 .and. step == 0) write (*, '(a)') 'starting at step 0'
  flush (6)
  do while (step < steps)
    call advance()
    if (mod(step, every) == 0) call write_checkpoint()
    call pause_here('step', rank, step)
  end do
  call finish()
  call MPI_Finalize()
contains
  subroutine advance()
    integer :: left, right
    left = mod(rank + ranks - 1, ranks)
    right = mod(rank + 1, ranks)
    call MPI_Sendrecv(cells(cells_count), 1, MPI_DOUBLE_PRECISION, right, 1, from_left, 1, &
                      MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(cells(1), 1, MPI_DOUBLE_PRECISION, left, 2, from_right, 1, &
                      MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call average(cells, step, from_left, from_right, mine)
    call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
    step = step + 1
    call wait_ms(delay_ms)
  end subroutine

  function file_name(at) result(name)
    integer, intent(in) :: at
    character(len=64) :: name
    write (name, '(a,i0,a,i0)') 'dump_', at, '.', rank
  end function

  logical function has_odd_neighbour()
    has_odd_neighbour = mod(rank, 2) == 0 .and. rank + 1 < ranks
  end function

  subroutine write_checkpoint()
    double precision :: theirs(cells_count)
    integer :: unit
    if (mod(rank, 2) == 1) then
      call MPI_Send(cells, cells_count, MPI_DOUBLE_PRECISION, rank - 1, 3, MPI_COMM_WORLD)
      return
    end if
    open (newunit=unit, file=trim(file_name(step)), form='unformatted', access='stream', &
          status='replace')
    write (unit) step, cells(1:cells_count/2)
    call pause_here('write', rank, step)
    write (unit) cells(cells_count/2 + 1:)
    if (has_odd_neighbour()) then
      call MPI_Recv(theirs, cells_count, MPI_DOUBLE_PRECISION, rank + 1, 3, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE)
      write (unit) theirs
    end if
    close (unit)
  end subroutine

  subroutine restart()
    double precision :: theirs(cells_count)
    integer :: unit, written, status
    if (mod(rank, 2) == 0) then
      open (newunit=unit, file=trim(file_name(from)), form='unformatted', access='stream', &
            status='old', action='read', iostat=status)
      if (status == 0) read (unit, iostat=status) written, cells
      if (status == 0 .and. has_odd_neighbour()) read (unit, iostat=status) theirs
      if (status /= 0) then
        write (0, '(a,a)') 'cannot read ', trim(file_name(from))
        call MPI_Abort(MPI_COMM_WORLD, 1)
      end if
      close (unit)
      if (has_odd_neighbour()) then
        call MPI_Send(theirs, cells_count, MPI_DOUBLE_PRECISION, rank + 1, 4, MPI_COMM_WORLD)
      end if
    else
      call MPI_Recv(cells, cells_count, MPI_DOUBLE_PRECISION, rank - 1, 4, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE)
    end if
    step = from
  end subroutine

  subroutine finish()
    use iso_fortran_env, only: int64
    integer(int64) :: bits, all
    bits = fingerprint(cells)
    call MPI_Reduce(bits, all, 1, MPI_INTEGER8, MPI_BXOR, 0, MPI_COMM_WORLD)
    if (rank == 0) write (*, '(a,i0,a,f0.6,a,z16.16)') &
      'step ', step, ' total ', total, ' checksum ', all
    flush (6)
  end subroutine
end program
