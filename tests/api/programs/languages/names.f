C Whether the calls have the names by which this compiler calls them.
      PROGRAM NAMES
      CHARACTER*16 VERSION
      INTEGER IERROR
      CALL SCR_GET_VERSION(VERSION, IERROR)
      PRINT '(A,I2)', VERSION, IERROR
C Before SCR_Init: an error, not an abort.
      CALL SCR_FINALIZE(IERROR)
      PRINT '(I2)', IERROR
      END
