! The interfaces of SCR for Fortran: "use scr", beside "use mpi" or "use mpi_f08". It has no code,
! only what the compiler checks calls by; a compiler whose .mod file is not there makes its own:
!
!     gfortran -c scr.f90
!
! See scr.h, docs/api.md or the manual pages (section 3scr) for what the calls do. IERROR and names
! that are answers may be left out. CHARACTER arguments are padded with blanks; an answer that does
! not fit is an error, not cut.
module scr
  implicit none
  public

  integer, parameter :: SCR_SUCCESS = 0
  ! Length that CHARACTER variables for a name or a path are to have.
  integer, parameter :: SCR_MAX_FILENAME = 1024
  ! What a dataset is: to be added, each at most once.
  integer, parameter :: SCR_FLAG_NONE = 0
  integer, parameter :: SCR_FLAG_CHECKPOINT = 1
  integer, parameter :: SCR_FLAG_OUTPUT = 2

  interface
    subroutine scr_config(config, value, ierror)
      character(len=*), intent(in) :: config
      character(len=*), intent(out), optional :: value
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_init(ierror)
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_finalize(ierror)
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_get_version(version, ierror)
      character(len=*), intent(out) :: version
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_should_exit(flag, ierror)
      integer, intent(out) :: flag
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_route_file(name, file, ierror)
      character(len=*), intent(in) :: name
      character(len=*), intent(out) :: file
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_have_restart(flag, name, ierror)
      integer, intent(out) :: flag
      character(len=*), intent(out), optional :: name
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_start_restart(name, ierror)
      character(len=*), intent(out), optional :: name
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_complete_restart(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_need_checkpoint(flag, ierror)
      integer, intent(out) :: flag
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_start_checkpoint(ierror)
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_complete_checkpoint(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out), optional :: ierror
    end subroutine

    ! A blank name is none: the dataset gets one.
    subroutine scr_start_output(name, flags, ierror)
      character(len=*), intent(in) :: name
      integer, intent(in) :: flags
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_complete_output(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_current(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_drop(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out), optional :: ierror
    end subroutine

    subroutine scr_delete(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out), optional :: ierror
    end subroutine
  end interface
end module
