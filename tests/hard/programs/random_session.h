/* How `random_io` opens, views and closes its files. */
#include "random_io.h"
#include <fcntl.h>
#include <unistd.h>

enum Kind { WORLD, HALVES, ONE_HALF, ALONE, POSIX };

typedef struct {
  Model *model;
  enum Kind kind;
  int in, amode, atomic, fd;
  int sieves; /* MPI-IO may write back what it has read between the pieces of a write */
  int busy;   /* it may be doing so */
  MPI_File file;
  View view;
  long at[RANKS], shared;
} Session;

static long seed, run, allocates = 1, lacks_later, always_sieves, verbose;
static int shy, grain, keeps, names, steps;
static unsigned long long salt;
static Model models[STEPS + 1][FILES], sealed[STEPS + 1][FILES];
static MPI_Status status;

static void ok(int code, const char *what, const Session *session) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "%s\n", text);
  wrong(what, session->model->path, -1);
}
#define OK(call) ok(call, #call, s)
#define IS(call) ((call) ? (void)0 : wrong(#call " failed", s->model->path, -1))
#define SAY(...) (verbose && live && rank == 0 ? (void)fprintf(stderr, __VA_ARGS__) : (void)0)

/* All ranks meet; not `strictly`: in any way. */
static void meet(int strictly) {
  int way = draw(strictly ? 2 : 5), one = rank, other, all[RANKS];
  SAY("  meet %d\n", way);
  if (!live) return;
  if (way == 0) MPI_Barrier(MPI_COMM_WORLD);
  if (way == 1) MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (way == 2) MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
  if (way == 3) {
    MPI_Reduce(&one, &other, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Bcast(&other, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  for (int round = 0; way == 4 && round < 2; round++) {
    if (rank) MPI_Recv(&other, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD, &status);
    MPI_Send(&one, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    if (!rank) MPI_Recv(&other, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD, &status);
  }
}

static void barrier(void) {
  SAY("  barrier\n");
  if (live) MPI_Barrier(MPI_COMM_WORLD);
}

/* After it each rank may access what others have. */
static void separate(Session *s) {
  int syncs = s->kind < POSIX && (!s->atomic || draw(2));
  SAY("  separate syncs %d\n", syncs);
  if (live && syncs && s->in) OK(MPI_File_sync(s->file));
  meet(s->kind != WORLD || !syncs);
  if (live && syncs && s->in) OK(MPI_File_sync(s->file));
  settle(s->model);
  s->busy = 0;
}

static MPI_Info hints(int sieves) {
  static const char *const words[][2] = {
      {"romio_cb_write", "enable"},   {"romio_cb_write", "disable"}, {"cb_nodes", "1"},
      {"cb_nodes", "2"},              {"cb_nodes", "4"},             {"romio_ds_read", "enable"},
      {"cb_buffer_size", "5000"},     {"cb_buffer_size", "70000"},   {"ind_wr_buffer_size", "3000"},
      {"romio_no_indep_rw", "true"},  {"romio_cb_read", "enable"},   {"romio_ds_read", "disable"}};
  int count = draw(2) ? 0 : 1 + draw(4), which[4];
  MPI_Info info = MPI_INFO_NULL;
  for (int i = 0; i < count; i++) which[i] = draw(12);
  if (!live || (!count && sieves)) return info;
  MPI_Info_create(&info);
  if (!sieves) MPI_Info_set(info, "romio_ds_write", "disable");
  for (int i = 0; i < count; i++) {
    SAY("  hint %s %s\n", words[which[i]][0], words[which[i]][1]);
    MPI_Info_set(info, words[which[i]][0], words[which[i]][1]);
  }
  return info;
}

static void removed_first(Session *s) {
  int by_mpi = draw(2), strictly = draw(2), token = 0;
  SAY("  %s %s\n", by_mpi ? "MPI_File_delete" : "unlink", s->model->path);
  vanish(s->model);
  if (!live) return;
  if (rank == 0 && by_mpi) OK(MPI_File_delete(s->model->path, MPI_INFO_NULL));
  if (rank == 0 && !by_mpi) IS(unlink(s->model->path) == 0);
  if (strictly || s->kind != WORLD) MPI_Barrier(MPI_COMM_WORLD);
  else MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

static void open_by_posix(Session *s, int only_read) {
  int flags = only_read ? O_RDONLY : O_RDWR, maker = draw(size), cuts = !draw(3) && !only_read;
  SAY("  open by POSIX, exists %d cuts %d\n", s->model->exists, cuts);
  if (live && rank == maker) {
    flags |= (s->model->exists ? 0 : O_CREAT) | (cuts ? O_TRUNC : 0);
    IS((s->fd = open(s->model->path, flags, 0644)) >= 0);
  }
  if (cuts) resize(s->model, 0);
  barrier();
  if (live && rank != maker) IS((s->fd = open(s->model->path, only_read ? O_RDONLY : O_RDWR)) >= 0);
}

/* As libraries do it with what an earlier checkpoint has left: one asks how long it is, and it is
 * cut to nothing. */
static void empty(Session *s) {
  MPI_Offset bytes = -1;
  int asks = draw(2), one = draw(size), all = s->kind == WORLD || s->kind == ONE_HALF;
  SAY("  empty it, asks %d\n", asks);
  if (live && asks && s->in && s->kind < POSIX && rank == (s->kind == ONE_HALF ? 1 : one)) {
    OK(MPI_File_get_size(s->file, &bytes));
    if (bytes != s->model->size) wrong("older size", s->model->path, bytes);
  }
  if (live && s->in && s->kind < POSIX
      && (all || (s->kind == HALVES ? rank % 2 == one % 2 : rank == one)))
    OK(MPI_File_set_size(s->file, 0));
  if (live && s->kind == POSIX && rank == one) IS(ftruncate(s->fd, 0) == 0);
  barrier();
  resize(s->model, 0);
  settle(s->model);
  s->model->older = 0;
}

static void begin(Session *s, Model *model, int only_read) {
  int dice = draw(20), makes = !model->exists;
  memset(s, 0, sizeof *s);
  s->model = model;
  s->kind = dice < 12   ? WORLD
            : dice < 14 ? HALVES
            : dice < 15 ? ONE_HALF
            : dice < 17 ? ALONE
                        : POSIX;
  if (model->exists && !only_read && !draw(4)) removed_first(s), makes = 1, model->older = 0;
  s->in = s->kind != ONE_HALF || rank % 2;
  s->view = (View){PLAIN, 0, 1, 1, 1};
  settle(model);
  if (s->kind == POSIX) {
    open_by_posix(s, only_read);
    s->amode = only_read ? MPI_MODE_RDONLY : MPI_MODE_RDWR;
  } else {
    MPI_Comm comm = MPI_COMM_WORLD;
    s->sieves = !draw(3) || always_sieves;
    MPI_Info info = hints(s->sieves);
    s->amode = only_read ? MPI_MODE_RDONLY : draw(4) ? MPI_MODE_RDWR : MPI_MODE_WRONLY;
    if (!only_read && (makes || draw(2) || model->older)) s->amode |= MPI_MODE_CREATE;
    if (makes && !draw(3) && (s->kind == WORLD || s->kind == ONE_HALF)) s->amode |= MPI_MODE_EXCL;
    if (!only_read && !draw(6) && !names) s->amode |= MPI_MODE_APPEND;
    SAY("  open %s kind %d amode %d\n", model->path, s->kind, s->amode);
    if (live && (s->kind == HALVES || s->kind == ONE_HALF))
      MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
    if (live && s->kind == ALONE) comm = MPI_COMM_SELF;
    if (live && s->in) OK(MPI_File_open(comm, model->path, s->amode, info, &s->file));
    if (live && comm != MPI_COMM_WORLD && comm != MPI_COMM_SELF) MPI_Comm_free(&comm);
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    if (s->amode & MPI_MODE_APPEND) {
      for (int of = 0; of < size; of++) s->at[of] = model->size;
      s->shared = model->size;
      if (s->kind != WORLD) barrier();
    }
  }
  model->exists = 1;
  if (model->older && !only_read) empty(s);
}

static void end(Session *s) {
  SAY("  close\n");
  if (live && s->kind == POSIX) IS(close(s->fd) == 0);
  if (live && s->kind < POSIX && s->in) OK(MPI_File_close(&s->file));
  if (s->kind == WORLD) meet(draw(2));
  else barrier();
  settle(s->model);
}

static void file_type(const View *view, MPI_Datatype element, MPI_Datatype *type) {
  MPI_Datatype blocks;
  int block = view->block;
  if (view->kind == STRIPES) {
    MPI_Type_vector(3, block, size * block, element, &blocks);
    MPI_Type_create_resized(blocks, 0, 3l * size * block * view->element, type);
    MPI_Type_free(&blocks);
  } else if (view->kind == STRUCK) {
    int whole = size * block, first = rank * block;
    MPI_Type_create_subarray(1, &whole, &block, &first, MPI_ORDER_C, element, type);
  } else {
    int whole[] = {2 * view->rows, block * (size / 2)}, own[] = {view->rows, block};
    int first[] = {rank / (size / 2) * view->rows, rank % (size / 2) * block};
    MPI_Type_create_subarray(2, whole, own, first, MPI_ORDER_C, element, type);
  }
  MPI_Type_commit(type);
}

static void change_view(Session *s) {
  View *view = &s->view;
  int kind = draw(6);
  *view = (View){kind > 3 ? PLAIN : kind, draw(2) ? 0 : draw(3000), draw(2) ? 1 : 4, 1, 1};
  view->block = 1 + draw(draw(3) ? 4 * grain / view->element + 1 : 40);
  view->rows = 1 + draw(4);
  memset(s->at, 0, sizeof s->at);
  s->shared = 0;
  MPI_Datatype element = view->element == 4 ? MPI_INT : MPI_BYTE, type = element;
  SAY("  view %d shift %ld element %d block %d rows %d\n", view->kind, view->shift, view->element,
      view->block, view->rows);
  if (!live || !s->in) return;
  long shift = view->shift;
  if (view->kind != PLAIN) file_type(view, element, &type);
  if (view->kind == STRIPES) shift += (long)rank * view->block * view->element;
  OK(MPI_File_set_view(s->file, shift, element, type, "native", MPI_INFO_NULL));
  if (view->kind != PLAIN) MPI_Type_free(&type);
}

/* Who does what: each rank a piece of its own, beside or among what is there. */
static void pieces(Session *s, Span *spans, int writes, int all_have) {
  const View *view = &s->view;
  long unit = view->element * (view->kind == PLAIN ? 1 : size);
  long chunk = 1 + draw(grain / (draw(4) ? 1 : 10) / view->element + 1), turn = draw(size);
  long end = s->model->size > view->shift ? (s->model->size - view->shift + unit - 1) / unit : 0;
  long base = writes && draw(3) ? end : draw(end + 1);
  for (int of = 0; of < size; of++) {
    int has = s->kind != ONE_HALF || of % 2;
    spans[of].count = draw(6) ? (draw(6) ? chunk : draw(chunk)) : 0;
    if (!has || all_have) spans[of].count = has ? chunk : 0;
    spans[of].at = base;
    if (view->kind == PLAIN) spans[of].at += (of + turn) % size * chunk;
    else spans[of].at += draw(4) ? 0 : chunk / 2;
  }
}
