/* An MPI of one process that somebody has made up, with the handles of MPICH. It does what SCR asks
 * of it; with $ODD in the environment it does the one thing that is named otherwise. */
#include <stdlib.h>
#include <string.h>

enum { WORLD = 0x44000000, SELF, NO_COMM = 0x04000000, NO_REQUEST = 0x2c000000, OURS = 0x84000000 };
enum { MAX = 0x58000001, SUM = 0x58000003, BAND = 0x58000006, UNDEFINED = -32766, NOBODY = -1 };
enum { KEYS = 64, COMMS = 64 };

typedef int on_delete(int, int, void *, void *);
static struct { void *value; on_delete *gone; int set, comm; } kept[KEYS];
static on_delete *deleted_by[KEYS];
static struct message { int tag, bytes; char *text; struct message *next; } *waiting;
static int initialized, finalized, keys, attributes, comms;

static int odd(const char *what)
{
    const char *odd = getenv("ODD");
    return odd && !strcmp(odd, what);
}

static int bytes_of(int type) { return (type >> 8 & 0xff) ? (type >> 8 & 0xff) : 1; }

static int known(int comm)
{
    return comm == WORLD || comm == SELF || ((unsigned)comm >> 24 == 0x84 && comm != NO_COMM);
}

#define CALL(name, ...)                                                                     \
    int PMPI_##name(__VA_ARGS__);                                                           \
    int MPI_##name(__VA_ARGS__) __attribute__((alias("PMPI_" #name)));                      \
    int PMPI_##name(__VA_ARGS__)

#ifndef WITHOUT_A_MARK
int MPIR_Dup_fn(void) { return 0; }
#endif

CALL(Init, int *c, char ***v) { (void)c; (void)v; initialized = 1; return 0; }
CALL(Initialized, int *flag) { *flag = initialized; return 0; }
CALL(Finalized, int *flag) { *flag = finalized; return 0; }
CALL(Finalize, void)
{
    for (int at = attributes; at-- > 0;)
        if (kept[at].set && kept[at].comm == SELF)
            kept[at].gone(SELF, 0, kept[at].value, NULL);
    finalized = 1;
    return 0;
}
CALL(Query_thread, int *level) { *level = odd("level") ? 77 : 0; return 0; }
CALL(Get_library_version, char *text, int *length)
{
    strcpy(text, "Odd MPI 9000, of nobody");
    *length = (int)strlen(text);
    return 0;
}
CALL(Comm_rank, int comm, int *rank) { *rank = 0; return !known(comm); }
CALL(Comm_size, int comm, int *size) { *size = 1; return !known(comm); }
CALL(Comm_compare, int one, int other, int *result)
{
    *result = odd("compare") ? 201 : one == other ? 0 : 1;
    return !known(one) || !known(other);
}
CALL(Comm_group, int comm, int *made) { *made = comm; return !known(comm); }
CALL(Group_free, int *group) { *group = 0; return 0; }
CALL(Group_translate_ranks, int group, int count, const int *ranks, int other, int *into)
{
    (void)group; (void)other;
    for (int at = 0; at < count; ++at)
        into[at] = ranks[at];
    return 0;
}
CALL(Comm_dup, int comm, int *made) { *made = OURS + ++comms; return !known(comm); }
CALL(Comm_split, int comm, int color, int key, int *made)
{
    (void)key;
    if (odd("split error")) return 5;
    *made = color == UNDEFINED && !odd("split") ? NO_COMM : (int)(OURS + ++comms);
    return !known(comm);
}
CALL(Comm_free, int *comm) { *comm = NO_COMM; return 0; }
CALL(Comm_get_parent, int *comm) { *comm = NO_COMM; return 0; }
CALL(Comm_test_inter, int comm, int *flag) { (void)comm; *flag = 0; return 0; }
CALL(Comm_create_errhandler, void *handler, int *made) { *made = handler ? 7 : 8; return 0; }
CALL(Comm_set_errhandler, int comm, int handler) { return !known(comm) || handler != 7; }
CALL(Errhandler_free, int *handler) { *handler = 0; return 0; }
CALL(Comm_create_keyval, void *copy, on_delete *gone, int *key, void *more)
{
    (void)more;
    deleted_by[*key = keys++ % KEYS] = gone;
    return copy == NULL;
}
CALL(Comm_free_keyval, int *key) { *key = -1; return 0; }
CALL(Comm_set_attr, int comm, int key, void *value)
{
    if (attributes == KEYS) return 1;
    kept[attributes].value = value;
    kept[attributes].gone = deleted_by[key];
    kept[attributes].comm = comm;
    kept[attributes++].set = 1;
    return 0;
}
CALL(Comm_get_attr, int comm, int key, void **value, int *found)
{
    (void)comm; (void)key; (void)value;
    *found = 0;
    return 0;
}
CALL(Barrier, int comm) { return !known(comm); }
CALL(Bcast, void *all, int count, int type, int root, int comm)
{
    (void)all; (void)count; (void)type; (void)root;
    return !known(comm);
}
CALL(Allreduce, const void *in, void *out, int count, int type, int op, int comm)
{
    (void)op;
    if (type != 0x4c00083a || !odd("reduce")) memcpy(out, in, (size_t)count * bytes_of(type));
    return !known(comm);
}
CALL(Reduce_local, const void *in, void *both, int count, int type, int op)
{
    const long *from = in;
    long *to = both;
    if (bytes_of(type) != 8) return 3;
    for (int at = 0; at < count; at++) {
        if (op == SUM) to[at] += from[at];
        else if (op == BAND) to[at] &= from[at];
        else if (op == MAX && !odd("max")) to[at] = from[at] > to[at] ? from[at] : to[at];
        else if (op != MAX) return 9;
    }
    return 0;
}
CALL(Reduce, const void *in, void *out, int count, int type, int op, int root, int comm)
{
    (void)root;
    return PMPI_Allreduce(in, out, count, type, op, comm);
}
CALL(Abort, int comm, int code) { (void)comm; exit(code); }
CALL(Reduce_scatter_block, const void *in, void *out, int count, int type, int op, int comm)
{
    return PMPI_Allreduce(in, out, count, type, op, comm);
}
CALL(Allgather, const void *in, int count, int type, void *out, int out_count, int out_type,
     int comm)
{
    (void)out_count; (void)out_type;
    return PMPI_Allreduce(in, out, count, type, MAX, comm);
}
CALL(Allgatherv, const void *in, int count, int type, void *out, const int *counts,
     const int *starts, int out_type, int comm)
{
    (void)counts; (void)starts; (void)out_type;
    return PMPI_Allreduce(in, out, count, type, MAX, comm);
}
CALL(Send, const void *text, int count, int type, int to, int tag, int comm)
{
    if (to == NOBODY) return 0;
    struct message *one = calloc(1, sizeof *one), **end = &waiting;
    *one = (struct message){ tag, count * bytes_of(type), malloc((size_t)count + 1), NULL };
    memcpy(one->text, text, (size_t)count);
    while (*end) end = &(*end)->next;
    *end = one;
    return !known(comm);
}
CALL(Isend, const void *text, int count, int type, int to, int tag, int comm, int *request)
{
    *request = 1;
    return PMPI_Send(text, count, type, to, tag, comm);
}
CALL(Recv, void *text, int count, int type, int from, int tag, int comm, int *status)
{
    if (from == NOBODY) return 0;
    for (struct message **at = &waiting; *at; at = &(*at)->next) {
        struct message *one = *at;
        if (one->tag != tag || one->bytes > count * bytes_of(type)) continue;
        memcpy(text, one->text, (size_t)one->bytes);
        *at = one->next;
        if ((size_t)status > 1) status[odd("status") ? 0 : 2] = 0;
        return !known(comm);
    }
    return 1;
}
CALL(Irecv, void *text, int count, int type, int from, int tag, int comm, int *request)
{
    *request = 1;
    return PMPI_Recv(text, count, type, from, tag, comm, NULL);
}
CALL(Sendrecv, const void *out, int count, int type, int to, int tag, void *in, int in_count,
     int in_type, int from, int in_tag, int comm, int *status)
{
    if (PMPI_Send(out, count, type, to, tag, comm)) return 1;
    return PMPI_Recv(in, in_count, in_type, from, in_tag, comm, status);
}
CALL(Iprobe, int from, int tag, int comm, int *flag, int *status)
{
    (void)from; (void)tag; (void)comm; (void)status;
    *flag = 0;
    return 0;
}
CALL(Waitall, int count, int *requests, void *statuses)
{
    (void)statuses;
    for (int at = 0; at < count; at++) requests[at] = NO_REQUEST;
    return 0;
}
CALL(Testall, int count, int *requests, int *flag, void *statuses)
{
    *flag = 1;
    return PMPI_Waitall(count, requests, statuses);
}
