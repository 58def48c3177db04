! The same as fixed.f in free form, with the modules mpi and scr; IERROR is left out where it
! does not matter.
program free
  use mpi
  use scr
  implicit none
  character(len=SCR_MAX_FILENAME) :: name, file
  character(len=64) :: line
  integer :: rank, flag, ierror, unit

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call scr_init(ierror)
  print '(i0,a,i0)', rank, ' init ', ierror
  call scr_have_restart(flag, name)
  if (flag == 1) then
    print '(i0,2a)', rank, ' have ', trim(name)
    call scr_start_restart(name, ierror)
    print '(i0,2a)', rank, ' reads ', trim(name)
    write (line, '(a,i0)') 'rank_', rank
    call scr_route_file(line, file, ierror)
    open (newunit=unit, file=file, status='old')
    read (unit, '(a)') line
    close (unit)
    print '(i0,2a)', rank, ' found ', trim(line)
    call scr_complete_restart(1, ierror)
    print '(i0,a,i0)', rank, ' restart ', ierror
  else
    print '(i0,a)', rank, ' have none'
    call write_dataset('one', SCR_FLAG_CHECKPOINT, 1)
    call write_dataset('plot', SCR_FLAG_OUTPUT, 1)
    call write_dataset('two', SCR_FLAG_CHECKPOINT + SCR_FLAG_OUTPUT, merge(0, 1, rank == 1))
  end if
  call scr_finalize(ierror)
  print '(i0,a,i0)', rank, ' end ', ierror
  call MPI_Finalize(ierror)
contains
  subroutine write_dataset(name, flags, valid)
    character(len=*), intent(in) :: name
    integer, intent(in) :: flags, valid
    character(len=64) :: path
    call scr_start_output(name, flags)
    write (path, '(3a,i0)') 'data/', name, '/rank_', rank
    call scr_route_file(path, file)
    open (newunit=unit, file=file, status='replace')
    write (unit, '(2a,i0)') name, ' of ', rank
    close (unit)
    call scr_complete_output(valid, ierror)
    print '(i0,3a,i0)', rank, ' ', name, ' ', ierror
  end subroutine
end program
