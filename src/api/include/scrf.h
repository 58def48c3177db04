! What a Fortran program includes that calls SCR, in fixed or in free
! form: no line is longer than 72 columns, or continued. The module
! "scr" (scr.f90) has the same names, and the interfaces.

! What IERROR is after a call that went well.
      INTEGER SCR_SUCCESS
      PARAMETER (SCR_SUCCESS=0)

! Length that CHARACTER variables for a name or a path are to have.
      INTEGER SCR_MAX_FILENAME
      PARAMETER (SCR_MAX_FILENAME=1024)

! What a dataset is: to be added, each at most once.
      INTEGER SCR_FLAG_NONE
      PARAMETER (SCR_FLAG_NONE=0)
      INTEGER SCR_FLAG_CHECKPOINT
      PARAMETER (SCR_FLAG_CHECKPOINT=1)
      INTEGER SCR_FLAG_OUTPUT
      PARAMETER (SCR_FLAG_OUTPUT=2)
