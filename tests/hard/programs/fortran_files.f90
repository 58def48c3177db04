! Files that all ranks write together by MPI-IO in Fortran, one for each checkpoint.
! usage: fortran_files PATTERN STEPS   The patterns are those of mpi_files.c.
program fortran_files
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    function usleep(microseconds) bind(c, name='usleep') result(status)
      import
      integer(c_int), value :: microseconds
      integer(c_int) :: status
    end function
    function mkdir(path, mode) bind(c, name='mkdir') result(status)
      import
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: mode
      integer(c_int) :: status
    end function
  end interface
  integer, parameter :: COUNT = 4096, BYTES = 4 * COUNT
  integer :: code, rank, ranks, steps, step, at, made, cells(COUNT)
  character(len=32) :: pattern, word, directory

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, pattern)
  call get_command_argument(2, word)
  read (word, *) steps
  do step = 1, steps
    cells = step * 1000 + rank
    write (directory, '(a,i0)') 'ckpt/step_', step
    made = mkdir('ckpt' // c_null_char, 511_c_int)
    made = mkdir(trim(directory) // c_null_char, 511_c_int)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    call write_all(trim(directory) // '/shared.dat')
    do at = 1, 5
      call MPI_Barrier(MPI_COMM_WORLD, code)
      made = usleep(10000_c_int)
    end do
  end do
  if (rank == 0) write (*, '(a)') 'done'
  call MPI_Finalize(code)

contains

  subroutine good(what)
    character(len=*), intent(in) :: what
    if (code == MPI_SUCCESS) return
    write (*, '(a)') what // ' failed'
    call MPI_Abort(MPI_COMM_WORLD, 4, code)
  end subroutine

  subroutine at_all(file, offset)
    integer, intent(in) :: file
    integer(MPI_OFFSET_KIND), intent(in) :: offset
    call MPI_File_write_at_all(file, offset, cells, COUNT, MPI_INTEGER, MPI_STATUS_IGNORE, code)
    call good('write_at_all')
  end subroutine

  subroutine at_own(file, offset)
    integer, intent(in) :: file
    integer(MPI_OFFSET_KIND), intent(in) :: offset
    call MPI_File_write_at(file, offset, cells, COUNT, MPI_INTEGER, MPI_STATUS_IGNORE, code)
    call good('write_at')
  end subroutine

  subroutine write_all(name)
    character(len=*), intent(in) :: name
    integer :: file, view, request, back(COUNT), other
    integer(MPI_OFFSET_KIND) :: own, whole
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, &
                       file, code)
    call good('open')
    own = int(rank, MPI_OFFSET_KIND) * BYTES
    whole = int(ranks, MPI_OFFSET_KIND) * BYTES
    other = mod(rank + 1, ranks)
    select case (pattern)
    case ('collective')
      call at_all(file, own)
    case ('independent')
      call at_own(file, own)
    case ('view')
      call MPI_Type_create_subarray(2, [COUNT / 8 * ranks, 8], [COUNT / 8, 8], &
                                    [COUNT / 8 * rank, 0], MPI_ORDER_FORTRAN, MPI_INTEGER, &
                                    view, code)
      call MPI_Type_commit(view, code)
      call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, view, 'native', &
                             MPI_INFO_NULL, code)
      call good('set_view')
      call MPI_File_write_all(file, cells, COUNT, MPI_INTEGER, MPI_STATUS_IGNORE, code)
      call good('write_all')
      call MPI_Type_free(view, code)
    case ('ordered')
      call MPI_File_write_ordered(file, cells, COUNT, MPI_INTEGER, MPI_STATUS_IGNORE, code)
      call good('write_ordered')
    case ('preallocated')
      call MPI_File_set_size(file, 0_MPI_OFFSET_KIND, code)
      call MPI_File_preallocate(file, whole, code)
      call good('preallocate')
      call at_all(file, own)
      call MPI_File_set_size(file, whole, code)
    case ('header')
      if (rank == 0) call at_own(file, 0_MPI_OFFSET_KIND)
      call at_all(file, own + BYTES)
      if (rank == 0) call at_own(file, 0_MPI_OFFSET_KIND)
    case ('read')
      call at_all(file, own)
      call MPI_File_sync(file, code)
      call MPI_Barrier(MPI_COMM_WORLD, code)
      call MPI_File_sync(file, code)
      call MPI_File_read_at_all(file, int(other, MPI_OFFSET_KIND) * BYTES, back, COUNT, &
                                MPI_INTEGER, MPI_STATUS_IGNORE, code)
      if (any(back /= step * 1000 + other)) write (*, '(a)') 'wrong content'
    case ('nonblocking')
      call MPI_File_iwrite_at(file, own, cells, COUNT, MPI_INTEGER, request, code)
      call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    case ('atomic')
      call MPI_File_set_atomicity(file, .true., code)
      call at_own(file, own)
    case ('split')
      call MPI_File_write_at_all_begin(file, own, cells, COUNT, MPI_INTEGER, code)
      call MPI_File_write_at_all_end(file, cells, MPI_STATUS_IGNORE, code)
    end select
    call MPI_File_close(file, code)
    call good('close')
  end subroutine
end program
