! The include file in free form.
program included
  implicit none
  include 'scrf.h'
  print '(5(i0,1x))', SCR_SUCCESS, SCR_MAX_FILENAME, SCR_FLAG_NONE, SCR_FLAG_CHECKPOINT, &
    SCR_FLAG_OUTPUT
end program
