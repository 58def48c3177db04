! What the two Fortran examples share: arguments and the arithmetic of a step; no MPI, no file I/O.
module heat_common
  implicit none
  integer, parameter :: cells_count = 20000
  integer :: steps = 60, every = 10, delay_ms = 0, from = -1, pause_step = -1
  character(len=16) :: pause_where = ''
  character(len=256) :: pause_file = ''
contains
  subroutine read_arguments()
    character(len=256) :: key, value
    integer :: i
    i = 1
    do while (i < command_argument_count())
      call get_command_argument(i, key)
      call get_command_argument(i + 1, value)
      select case (key)
      case ('--steps'); read (value, *) steps
      case ('--every'); read (value, *) every
      case ('--delay'); read (value, *) delay_ms
      case ('--from'); read (value, *) from
      case ('--pause')
        pause_where = trim(value)
        call get_command_argument(i + 2, value)
        read (value, *) pause_step
        call get_command_argument(i + 3, pause_file)
        i = i + 2
      case default
        write (0, *) 'unknown argument ', trim(key)
        stop 2
      end select
      i = i + 2
    end do
  end subroutine

  subroutine first_state(cells, rank)
    double precision, intent(out) :: cells(cells_count)
    integer, intent(in) :: rank
    integer :: i
    do i = 1, cells_count
      cells(i) = mod(rank*31 + (i - 1)*7, 101)
    end do
  end subroutine

  subroutine average(cells, step, from_left, from_right, total)
    double precision, intent(inout) :: cells(cells_count)
    integer, intent(in) :: step
    double precision, intent(in) :: from_left, from_right
    double precision, intent(out) :: total
    double precision :: before, here, after
    integer :: i
    before = from_left
    total = 0
    do i = 1, cells_count
      after = from_right
      if (i < cells_count) after = cells(i + 1)
      here = cells(i)
      cells(i) = 0.25d0*before + 0.5d0*here + 0.25d0*after
      if (mod(i - 1, 13) == mod(step, 13)) cells(i) = cells(i) + 0.01d0
      before = here
      total = total + cells(i)
    end do
  end subroutine

  function fingerprint(cells) result(bits)
    use iso_fortran_env, only: int64
    double precision, intent(in) :: cells(cells_count)
    integer(int64) :: bits
    integer :: i
    bits = 0
    do i = 1, cells_count
      bits = ieor(ishftc(bits, 7), transfer(cells(i), bits))
    end do
  end function

  ! Rank 0 makes the file and waits until somebody removes it.
  subroutine pause_here(place, rank, step)
    character(len=*), intent(in) :: place
    integer, intent(in) :: rank, step
    integer :: unit
    logical :: there
    if (rank /= 0 .or. step /= pause_step .or. place /= trim(pause_where)) return
    open (newunit=unit, file=trim(pause_file), status='replace')
    close (unit)
    do
      inquire (file=trim(pause_file), exist=there)
      if (.not. there) exit
      call wait_ms(5)
    end do
  end subroutine

  subroutine wait_ms(milliseconds)
    use iso_c_binding, only: c_int
    integer, intent(in) :: milliseconds
    integer(c_int) :: ignored
    interface
      function usleep(microseconds) bind(c, name='usleep') result(status)
        import :: c_int
        integer(c_int), value :: microseconds
        integer(c_int) :: status
      end function
    end interface
    if (milliseconds > 0) ignored = usleep(1000_c_int*int(milliseconds, c_int))
  end subroutine
end module
