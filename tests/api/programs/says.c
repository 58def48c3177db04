/* Makes the SCR calls that its arguments name, one after the other, and prints what each returns:
 * "<rank> <argument> <code> <answer>". In names %r is the rank. An argument that begins with "<n>@"
 * is for rank n alone; "v@<n>" as a value of valid is 0 on rank n and 1 on the others. */

#include <fcntl.h>
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, size;

static void named(const char *text, char *out)
{
    for (; *text; text++) {
        if (text[0] == '%' && text[1] == 'r') {
            out += sprintf(out, "%d", rank);
            text++;
        } else {
            *out++ = *text;
        }
    }
    *out = 0;
}

static int valid_of(const char *text)
{
    if (strncmp(text, "v@", 2) == 0)
        return rank != atoi(text + 2);
    return atoi(text);
}

/* The part behind the next colon; empty without one. The colon becomes an end. */
static char *part(char *text)
{
    char *colon = strchr(text, ':');
    if (colon == NULL)
        return text + strlen(text);
    *colon = 0;
    return colon + 1;
}

static int write_file(const char *path, const char *name, long bytes)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return 1;
    fprintf(file, "%s of %d\n", name, rank);
    for (long i = ftell(file); i < bytes; i++)
        fputc('a' + (i + rank) % 26, file);
    return fclose(file) != 0;
}

/* The same by MPI-IO of this rank alone. */
static int write_by_mpi(const char *path, const char *name, long bytes)
{
    MPI_File file;
    char *data = malloc(bytes + 1);
    memset(data, 'a' + rank % 26, bytes);
    data[snprintf(data, bytes, "%s of %d", name, rank)] = '\n';
    char *whole = strdup(path);
    int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
    int code = MPI_File_open(MPI_COMM_SELF, whole, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS;
    if (code == 0) {
        code = MPI_File_write_at(file, 0, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE)
               != MPI_SUCCESS;
        code |= MPI_File_close(&file) != MPI_SUCCESS;
    }
    free(whole);
    free(data);
    return code;
}

/* This rank's part of a file of all ranks, by pwrite or by MPI-IO of all of them. */
static int write_part(const char *path, long bytes, int by_mpi)
{
    char *data = malloc(bytes);
    memset(data, 'a' + rank % 26, bytes);
    int code;
    if (by_mpi) {
        MPI_File file;
        char *whole = strdup(path);
        int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
        code = MPI_File_open(MPI_COMM_WORLD, whole, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS;
        if (code == 0) {
            code = MPI_File_write_at(file, rank * bytes, data, (int)bytes, MPI_BYTE,
                                     MPI_STATUS_IGNORE) != MPI_SUCCESS;
            code |= MPI_File_close(&file) != MPI_SUCCESS;
        }
        free(whole);
    } else {
        int fd = open(path, O_WRONLY | O_CREAT, 0644);
        code = fd < 0 || pwrite(fd, data, bytes, rank * bytes) != bytes;
        code |= fd >= 0 && close(fd) != 0;
    }
    free(data);
    return code;
}

static void read_file(const char *path, char *answer)
{
    FILE *file = fopen(path, "r");
    char line[SCR_MAX_FILENAME] = "";
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        strcpy(answer, "unreadable");
    } else {
        line[strcspn(line, "\n")] = 0;
        fseek(file, 0, SEEK_END);
        sprintf(answer, "'%.900s' %ld", line, ftell(file));
    }
    if (file != NULL)
        fclose(file);
}

static void report(const char *said, int code, const char *answer)
{
    /* One write a line: MPICH's launcher mixes those of the ranks. */
    char line[8192];
    int length = snprintf(line, sizeof line, "%d %.2000s", rank, said);
    for (char *c = strchr(line, ' ') + 1; *c; c++)
        *c = *c == ' ' ? '_' : *c;
    snprintf(line + length, sizeof line - length, " %d %s\n", code, answer);
    if (write(STDOUT_FILENO, line, strlen(line)) < 0)
        abort();
}

static void scr_call(const char *said, char *text)
{
    static char name[4 * SCR_MAX_FILENAME], path[SCR_MAX_FILENAME], answer[2 * SCR_MAX_FILENAME];
    char *rest = part(text), *last;
    int code = -1, flag = -1;
    answer[0] = 0;
    if (strcmp(text, "init") == 0) {
        code = SCR_Init();
    } else if (strcmp(text, "finalize") == 0) {
        code = SCR_Finalize();
    } else if (strcmp(text, "version") == 0) {
        code = strcmp(SCR_Get_version(), SCR_VERSION) != 0;
    } else if (strcmp(text, "config") == 0) {
        const char *value = SCR_Configf("%s", rest);
        sprintf(answer, "%.1000s", value ? value : "-");
        free((void *)value);
        code = 0;
    } else if (strcmp(text, "should_exit") == 0 || strcmp(text, "need") == 0) {
        code = text[0] == 'n' ? SCR_Need_checkpoint(&flag) : SCR_Should_exit(&flag);
        sprintf(answer, "%d", flag);
    } else if (strcmp(text, "start") == 0) {
        code = SCR_Start_checkpoint();
    } else if (strcmp(text, "complete") == 0) {
        code = SCR_Complete_checkpoint(valid_of(rest));
    } else if (strcmp(text, "output") == 0) {
        last = part(rest);
        named(rest, name);
        code = SCR_Start_output(strcmp(name, "NULL") ? name : NULL, atoi(last));
    } else if (strcmp(text, "complete_output") == 0) {
        code = SCR_Complete_output(valid_of(rest));
    } else if (strcmp(text, "have") == 0) {
        strcpy(path, "-");
        code = SCR_Have_restart(&flag, path);
        sprintf(answer, "%d %s", flag, path);
    } else if (strcmp(text, "restart") == 0) {
        strcpy(path, "-");
        code = SCR_Start_restart(path);
        strcpy(answer, path);
    } else if (strcmp(text, "complete_restart") == 0) {
        code = SCR_Complete_restart(valid_of(rest));
    } else if (strcmp(text, "current") == 0) {
        code = SCR_Current(strcmp(rest, "NULL") ? rest : NULL);
    } else if (strcmp(text, "drop") == 0) {
        code = SCR_Drop(strcmp(rest, "NULL") ? rest : NULL);
    } else if (strcmp(text, "delete") == 0) {
        code = SCR_Delete(strcmp(rest, "NULL") ? rest : NULL);
    } else if (strcmp(text, "route") == 0) {
        named(rest, name);
        code = SCR_Route_file(name, path);
        strcpy(answer, path);
    } else if (strcmp(text, "long") == 0) { /* a name of so many bytes */
        memset(name, 'x', sizeof name);
        name[atoi(rest)] = 0;
        code = SCR_Route_file(name, path);
        sprintf(answer, "%zu", strlen(path));
    } else if (strcmp(text, "long_output") == 0) {
        memset(name, 'n', sizeof name);
        name[atoi(rest)] = 0;
        code = SCR_Start_output(name, SCR_FLAG_CHECKPOINT);
    } else if (strcmp(text, "nulls") == 0) { /* no place for an answer */
        code = (SCR_Should_exit(NULL) == 0) + (SCR_Have_restart(NULL, NULL) == 0)
             + (SCR_Need_checkpoint(NULL) == 0) + (SCR_Route_file(NULL, path) == 0)
             + (SCR_Route_file("x", NULL) == 0) + (SCR_Config(NULL) != NULL);
    } else if (strcmp(text, "small_place") == 0) { /* a mistake: less than SCR_MAX_FILENAME bytes */
        char *small = malloc(4);
        code = SCR_Route_file("longer/than/that", small);
        free(small);
    } else if (strcmp(text, "keep") == 0) { /* a mistake: the answer is never freed */
        code = SCR_Config(rest) == NULL;
    } else if (strcmp(text, "write") == 0) {
        last = part(rest);
        named(rest, name);
        code = SCR_Route_file(name, path);
        if (code == 0)
            code = 10 * write_file(path, name, atol(last));
    } else if (strcmp(text, "mpi_write") == 0) {
        last = part(rest);
        named(rest, name);
        code = SCR_Route_file(name, path);
        if (code == 0)
            code = 10 * write_by_mpi(path, name, atol(last));
    } else if (strcmp(text, "part") == 0 || strcmp(text, "mpi_part") == 0) {
        last = part(rest);
        named(rest, name);
        code = SCR_Route_file(name, path);
        strcpy(answer, path);
        if (code == 0)
            code = 10 * write_part(path, atol(last), text[0] == 'm');
    } else if (strcmp(text, "many") == 0) { /* so many files, each called by its number */
        last = part(rest);
        code = 0;
        for (int i = 0; i < atoi(last) && code == 0; i++) {
            sprintf(name, "%s%d.%d", rest, i, rank);
            code = SCR_Route_file(name, path);
            if (code == 0)
                code = write_file(path, name, 64);
        }
    } else if (strcmp(text, "read") == 0) {
        named(rest, name);
        code = SCR_Route_file(name, path);
        if (code == 0)
            read_file(path, answer);
    } else {
        fprintf(stderr, "what is %s?\n", said);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    report(said, code, answer);
}

static void run(const char *said)
{
    char text[4096];
    snprintf(text, sizeof text, "%s", said);
    char *at = strchr(text, '@'), *colon = strchr(text, ':'), *call = text;
    if (at != NULL && (colon == NULL || at < colon)) {
        if (atoi(text) != rank)
            return;
        call = at + 1;
    }
    if (strcmp(call, "barrier") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strncmp(call, "chdir:", 6) == 0) {
        mkdir(call + 6, 0777);
        if (chdir(call + 6) != 0)
            MPI_Abort(MPI_COMM_WORLD, 8);
    } else if (strncmp(call, "plain:", 6) == 0) { /* a file without SCR */
        char name[4096];
        named(call + 6, name);
        report(said, write_file(name, name, 100), "");
    } else if (strncmp(call, "look:", 5) == 0) {
        char name[4096], answer[2 * SCR_MAX_FILENAME];
        named(call + 5, name);
        read_file(name, answer);
        report(said, 0, answer);
    } else if (strncmp(call, "pause:", 6) == 0) {
        FILE *file = fopen(call + 6, "w");
        fclose(file);
        while (access(call + 6, F_OK) == 0)
            usleep(10000);
    } else if (strcmp(call, "kill") == 0) {
        raise(SIGKILL);
    } else if (strcmp(call, "leave") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        _exit(0);
    } else if (strcmp(call, "mpi_init") == 0) {
        MPI_Init(NULL, NULL);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    } else {
        scr_call(said, call);
    }
}

int main(int count, char **words)
{
    if (count < 2 || strcmp(words[1], "without") != 0)
        run("mpi_init");
    for (int i = 1; i < count; i++)
        if (strcmp(words[i], "without") != 0)
            run(words[i]);
    MPI_Finalize();
    return 0;
}
