C A program of old: fixed form, include files, no interfaces. It writes
C a checkpoint, output, and a checkpoint that is not valid on rank 1;
C started again, it reads the first. Prints "<rank> <what> <answer>".
      PROGRAM FIXED
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INCLUDE 'scrf.h'
      CHARACTER*(SCR_MAX_FILENAME) NAME, FILE
      CHARACTER*64 LINE
      INTEGER RANK, FLAG, IERROR, STATUS

      CALL MPI_INIT(IERROR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, RANK, IERROR)
      CALL SCR_INIT(IERROR)
      PRINT '(I0,A,I0)', RANK, ' init ', IERROR
      CALL SCR_HAVE_RESTART(FLAG, NAME, IERROR)
      IF (FLAG .EQ. 1) THEN
        PRINT '(I0,2A)', RANK, ' have ', TRIM(NAME)
        NAME = 'not touched'
        CALL SCR_START_RESTART(NAME, IERROR)
        PRINT '(I0,2A)', RANK, ' reads ', TRIM(NAME)
        WRITE (LINE, '(A,I0)') 'rank_', RANK
        CALL SCR_ROUTE_FILE(LINE, FILE, IERROR)
        OPEN (UNIT=7, FILE=FILE, STATUS='OLD')
        READ (7, '(A)', IOSTAT=STATUS) LINE
        CLOSE (7)
        PRINT '(I0,2A)', RANK, ' found ', TRIM(LINE)
        CALL SCR_COMPLETE_RESTART(1, IERROR)
        PRINT '(I0,A,I0)', RANK, ' restart ', IERROR
      ELSE
        PRINT '(I0,A)', RANK, ' have none'
        CALL WRIT('one', SCR_FLAG_CHECKPOINT, RANK, 1)
        CALL WRIT('plot', SCR_FLAG_OUTPUT, RANK, 1)
        FLAG = 1
        IF (RANK .EQ. 1) FLAG = 0
        CALL WRIT('two', SCR_FLAG_CHECKPOINT + SCR_FLAG_OUTPUT, RANK,
     &            FLAG)
      END IF
      CALL SCR_FINALIZE(IERROR)
      PRINT '(I0,A,I0)', RANK, ' end ', IERROR
      CALL MPI_FINALIZE(IERROR)
      END

      SUBROUTINE WRIT(NAME, FLAGS, RANK, VALID)
      IMPLICIT NONE
      INCLUDE 'scrf.h'
      CHARACTER*(*) NAME
      INTEGER FLAGS, RANK, VALID, IERROR
      CHARACTER*(SCR_MAX_FILENAME) PATH, FILE
      CALL SCR_START_OUTPUT(NAME, FLAGS, IERROR)
      WRITE (PATH, '(3A,I0)') 'data/', NAME, '/rank_', RANK
      CALL SCR_ROUTE_FILE(PATH, FILE, IERROR)
      OPEN (UNIT=7, FILE=FILE, STATUS='REPLACE')
      WRITE (7, '(2A,I0)') NAME, ' of ', RANK
      CLOSE (7)
      CALL SCR_COMPLETE_OUTPUT(VALID, IERROR)
      PRINT '(I0,3A,I0)', RANK, ' ', NAME, ' ', IERROR
      END
