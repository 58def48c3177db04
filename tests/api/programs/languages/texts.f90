! CHARACTER variables that are too short, and what stands beside them. Prints OK for each, or what
! is wrong.
program texts
  use mpi
  use scr
  implicit none
  type :: short
    sequence
    character(len=4) :: text, beside
  end type
  type(short) :: it
  character(len=16) :: version
  character(len=64) :: value
  character(len=2000) :: long
  integer :: ierror, flag

  call scr_get_version(version, ierror)
  call check('version', ierror == 0 .and. version == 'v3.1.0')
  it = short('____', 'here')
  call scr_get_version(it%text, ierror)
  call check('short version', ierror /= 0 .and. it%text == '' .and. it%beside == 'here')
  call scr_config('SCR_CACHE_SIZE=3', value, ierror)
  call check('set', ierror == 0 .and. value == '')
  call scr_config('SCR_CACHE_SIZE  ', value, ierror)
  call check('read', ierror == 0 .and. value == '3')
  call scr_config('SCR_CASH_SIZE=3', ierror=ierror)
  call check('unknown', ierror /= 0)

  call MPI_Init(ierror)
  call scr_init(ierror)
  long = 'of another one'
  call scr_have_restart(flag, long, ierror)
  call check('none', ierror == 0 .and. flag == 0 .and. long == '')
  call scr_start_output('   ', SCR_FLAG_CHECKPOINT, ierror)
  call check('blank name', ierror == 0)
  it = short('____', 'here')
  call scr_route_file('data/file', it%text, ierror)
  call check('short file', ierror /= 0 .and. it%text == '' .and. it%beside == 'here')
  call scr_route_file(' ', long, ierror)
  call check('no file', ierror /= 0 .and. long == '')
  call scr_route_file(repeat('x', 2000), long, ierror)
  call check('long file', ierror /= 0 .and. long == '')
  call scr_route_file('data/file'//char(0)//'beyond', long, ierror)
  open (7, file=long, iostat=ierror)
  call check('file', ierror == 0 .and. index(long, 'data/file ') > 0)
  close (7)
  call scr_complete_output(1, ierror)
  call check('complete', ierror == 0)
  it = short('____', 'here')
  call scr_have_restart(flag, it%text, ierror)
  call check('short name', ierror /= 0 .and. flag == 0 .and. it%beside == 'here')
  call scr_have_restart(flag)
  call scr_start_restart(it%text, ierror)
  call check('short start', ierror /= 0 .and. it%beside == 'here')
  call scr_start_output(repeat('y', 2000), SCR_FLAG_OUTPUT, ierror)
  call check('long name', ierror /= 0)
  call scr_finalize(ierror)
  call check('end', ierror == 0)
  call MPI_Finalize(ierror)
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    print '(2a)', what, merge(': OK   ', ': WRONG', is_right)
  end subroutine
end program
