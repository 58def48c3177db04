/* The Scalable Checkpoint/Restart library: what a program calls that writes checkpoints and output
 * through SCR. Every function that returns an int returns SCR_SUCCESS, or says on standard error
 * what is wrong. But for SCR_Route_file, SCR_Config, SCR_Configf, SCR_Get_version and
 * SCR_Last_error all processes of MPI_COMM_WORLD call them together, with the same arguments unless
 * it says otherwise. */

#ifndef SCR_H
#define SCR_H

#ifdef __cplusplus
extern "C" {
#endif

#define SCR_SUCCESS (0)

/* Bytes of every buffer for a name or a path, the terminating zero included. */
#define SCR_MAX_FILENAME (1024)

/* The version of the interface. */
#define SCR_MAJOR_VERSION "3"
#define SCR_MINOR_VERSION "1"
#define SCR_PATCH_VERSION "0"
#define SCR_VERSION "v3.1.0"

/* What a dataset is: bits for SCR_Start_output. */
#define SCR_FLAG_NONE (0)
#define SCR_FLAG_CHECKPOINT (1 << 0) /* the program can restart from it */
#define SCR_FLAG_OUTPUT (1 << 1)     /* it is to reach the prefix directory */

/* Before SCR_Init: "KEY=VALUE" sets, "KEY=" unsets. "KEY" reads, also later: a copy that the caller
 * frees, or NULL. Several pairs are one descriptor line ("STORE=/ssd COUNT=2"), of which
 * "STORE=/ssd COUNT" reads a value. */
const char* SCR_Config(const char* config);
const char* SCR_Configf(const char* format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* After MPI_Init, and once; before MPI_Finalize, and once. */
int SCR_Init(void);
int SCR_Finalize(void);

/* The version of the library, whenever it is called; not to be freed. */
char* SCR_Get_version(void);

/* Why the last call that failed on this process did: what it has said on standard error, or would
 * have, if another process had not. Until the next one that fails; not to be freed. Only this
 * implementation has it. */
const char* SCR_Last_error(void);

/* flag: 1 if the program is to stop, for instance since its time is nearly over. */
int SCR_Should_exit(int* flag);

/* Where to write or read the file that is finally called `name`: into `file`, of SCR_MAX_FILENAME
 * bytes. Between a start and its complete call; elsewhere it copies the name. Of this process
 * alone. */
int SCR_Route_file(const char* name, char* file);

/* Restart: have (flag is 1 if there is a checkpoint to read), start, read, complete. With valid = 0
 * on any process the next older checkpoint is offered. `name` may be NULL. */
int SCR_Have_restart(int* flag, char* name);
int SCR_Start_restart(char* name);
int SCR_Complete_restart(int valid);

/* A checkpoint: need (flag is 1 if one is due), start, write, complete. With valid = 0 on any
 * process there is none. `valid` is each process's own. */
int SCR_Need_checkpoint(int* flag);
int SCR_Start_checkpoint(void);
int SCR_Complete_checkpoint(int valid);

/* The same for a dataset with a name and flags; without a name (NULL) it gets one. */
int SCR_Start_output(const char* name, int flags);
int SCR_Complete_output(int valid);

/* The program has restarted from this checkpoint by itself, or wants to. */
int SCR_Current(const char* name);

/* A dataset leaves the index and the cache; SCR_Delete also deletes its files. */
int SCR_Drop(const char* name);
int SCR_Delete(const char* name);

#ifdef __cplusplus
}
#endif

#endif
