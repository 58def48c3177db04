! Heat on a ring with the module `mpi`; unformatted files a.<rank>.rst and b.<rank>.rst written in
! turn, so no name tells the step. The restart takes the newer one that all ranks have.
program heat_f77
  use mpi
  use heat_common
  implicit none
  double precision :: cells(cells_count), total, mine, from_left, from_right
  integer :: ierror, rank, ranks, step

  call MPI_INIT(ierror)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
  call read_arguments()
  call first_state(cells, rank)
  step = 0
  call restart()
  do while (step < steps)
    call advance()
    if (mod(step, every) == 0) call write_checkpoint()
    call pause_here('step', rank, step)
  end do
  call finish()
  call MPI_FINALIZE(ierror)
contains
  subroutine advance()
    integer :: left, right, status(MPI_STATUS_SIZE)
    left = mod(rank + ranks - 1, ranks)
    right = mod(rank + 1, ranks)
    call MPI_SENDRECV(cells(cells_count), 1, MPI_DOUBLE_PRECISION, right, 1, from_left, 1, &
                      MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, status, ierror)
    call MPI_SENDRECV(cells(1), 1, MPI_DOUBLE_PRECISION, left, 2, from_right, 1, &
                      MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, status, ierror)
    call average(cells, step, from_left, from_right, mine)
    call MPI_ALLREDUCE(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
    step = step + 1
    call wait_ms(delay_ms)
  end subroutine

  function file_name(letter) result(name)
    character(len=1), intent(in) :: letter
    character(len=64) :: name
    write (name, '(a,a,i0,a)') letter, '.', rank, '.rst'
  end function

  subroutine write_checkpoint()
    character(len=1) :: letter
    integer :: unit
    letter = 'a'
    if (mod(step/every, 2) == 0) letter = 'b'
    open (newunit=unit, file=trim(file_name(letter)), form='unformatted', status='replace')
    write (unit) step, ranks
    write (unit) cells(1:cells_count/2)
    call pause_here('write', rank, step)
    write (unit) cells(cells_count/2 + 1:)
    close (unit)
  end subroutine

  ! Step of a complete file of this rank, 0 if there is none; fills `found`.
  function read_part(letter, found) result(at)
    character(len=1), intent(in) :: letter
    double precision, intent(out) :: found(cells_count)
    integer :: at, unit, status, written_ranks
    at = 0
    open (newunit=unit, file=trim(file_name(letter)), form='unformatted', status='old', &
          action='read', iostat=status)
    if (status /= 0) return
    read (unit, iostat=status) at, written_ranks
    if (status == 0) read (unit, iostat=status) found(1:cells_count/2)
    if (status == 0) read (unit, iostat=status) found(cells_count/2 + 1:)
    if (status /= 0) at = 0
    close (unit)
  end function

  subroutine restart()
    double precision :: a_cells(cells_count), b_cells(cells_count)
    integer :: at(2), lowest(2), highest(2)
    at(1) = read_part('a', a_cells)
    at(2) = read_part('b', b_cells)
    call MPI_ALLREDUCE(at, lowest, 2, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, ierror)
    call MPI_ALLREDUCE(at, highest, 2, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierror)
    if (lowest(1) /= highest(1)) lowest(1) = 0
    if (lowest(2) /= highest(2)) lowest(2) = 0
    step = maxval(lowest)
    if (step > 0 .and. lowest(1) == step) cells = a_cells
    if (step > 0 .and. lowest(1) /= step) cells = b_cells
    if (rank == 0 .and. step > 0) write (*, '(a,i0)') 'going on from step ', step
    if (rank == 0 .and. step == 0) write (*, '(a)') 'starting at step 0'
    flush (6)
  end subroutine

  subroutine finish()
    use iso_fortran_env, only: int64
    integer(int64) :: bits, all
    bits = fingerprint(cells)
    call MPI_REDUCE(bits, all, 1, MPI_INTEGER8, MPI_BXOR, 0, MPI_COMM_WORLD, ierror)
    if (rank == 0) write (*, '(a,i0,a,f0.6,a,z16.16)') &
      'step ', step, ' total ', total, ' checksum ', all
    flush (6)
  end subroutine
end program
