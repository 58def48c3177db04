! Heat on a ring with the modules `mpi_f08` and `scr`; checkpoints by calls of SCR, a stream file a
! rank. Restart: whatever SCR has, the newest first, until all ranks can read one.
program heat_scr
  use mpi_f08
  use scr
  use heat_common
  implicit none
  double precision :: cells(cells_count), total, mine, from_left, from_right
  integer :: rank, ranks, step, stopping

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_arguments()
  call scr_init()
  call first_state(cells, rank)
  step = 0
  call restart()
  if (rank == 0 .and. step > 0) write (*, '(a,i0)') 'going on from step ', step
  if (rank == 0 .and. step == 0) write (*, '(a)') 'starting at step 0'
  flush (6)
  stopping = 0
  do while (step < steps .and. stopping == 0)
    call advance()
    if (mod(step, every) == 0) then
      call write_checkpoint()
      call scr_should_exit(stopping)
    end if
    call pause_here('step', rank, step)
  end do
  call scr_finalize()
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

  function file_name() result(name)
    character(len=64) :: name
    write (name, '(a,i0,a)') 'rank_', rank, '.dat'
  end function

  subroutine write_checkpoint()
    character(len=SCR_MAX_FILENAME) :: file
    character(len=64) :: name
    integer :: unit, status
    write (name, '(a,i0)') 'step_', step
    call scr_start_output(name, SCR_FLAG_CHECKPOINT)
    call scr_route_file('ckpt/'//trim(name)//'/'//file_name(), file, status)
    if (status == SCR_SUCCESS) then
      open (newunit=unit, file=trim(file), form='unformatted', access='stream', &
            status='replace', iostat=status)
      if (status == 0) write (unit, iostat=status) step, cells(1:cells_count/2)
      call pause_here('write', rank, step)
      if (status == 0) write (unit, iostat=status) cells(cells_count/2 + 1:)
      if (status == 0) close (unit, iostat=status)
    end if
    call scr_complete_output(merge(1, 0, status == 0))
  end subroutine

  subroutine restart()
    character(len=SCR_MAX_FILENAME) :: name
    double precision :: found(cells_count)
    integer :: have, written, status
    do
      call scr_have_restart(have, name)
      if (have == 0) return
      call scr_start_restart(name)
      call read_part(found, written, status)
      call scr_complete_restart(merge(1, 0, status == 0), status)
      ! Otherwise a rank could not read it, and the next older one is offered to all.
      if (status == SCR_SUCCESS) exit
    end do
    cells = found
    step = written
  end subroutine

  subroutine read_part(found, written, status)
    double precision, intent(out) :: found(cells_count)
    integer, intent(out) :: written, status
    character(len=SCR_MAX_FILENAME) :: file
    integer :: unit
    call scr_route_file(file_name(), file, status)
    if (status /= SCR_SUCCESS) return
    open (newunit=unit, file=trim(file), form='unformatted', access='stream', status='old', &
          action='read', iostat=status)
    if (status /= 0) return
    read (unit, iostat=status) written, found
    close (unit)
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
