/* A random program, drawn from a seed, whose ranks write checkpoints together by MPI-IO and POSIX,
 * never the same bytes without synchronising. What a rank reads is compared with what it has to be.
 *
 * usage: random_io SEED write RUN FROM [K PAUSE]   the RUN-th run (from 0) writes from step FROM on
 *                                    (1: all); after step K it makes the file PAUSE, and waits
 *        random_io SEED read RUN     looks for the newest checkpoint after RUN + 1 runs
 *        random_io SEED left RUN     compares all files with what RUN + 1 runs leave
 *
 * A last word -asl leaves out what some MPI-IO cannot do by itself: with `a` MPI_File_preallocate,
 * with `l` MPI_File_iwrite_all and its like; with `s` each write may write gaps back. With `1` or
 * `2` the checkpoints have that many names by turns, without a number, and begin with an empty
 * file. */
#define _GNU_SOURCE
#include "random_session.h"
#include <sys/stat.h>

enum Manner {
  AT, OWN, AT_LATER, OWN_LATER, AT_ALL, OWN_ALL, AT_ALL_LATER, OWN_ALL_LATER, AT_ALL_SPLIT,
  OWN_ALL_SPLIT, ORDERED, ORDERED_SPLIT, MANNERS
};

static int by_pointer(enum Manner manner) {
  return manner < AT_ALL_SPLIT ? manner % 2 : manner == OWN_ALL_SPLIT;
}

/* Returns whether the ranks have asked where the end is. */
static int seek_to(Session *s, const Span *spans) {
  int whence = draw(3), lazy = draw(2), plain = s->view.kind == PLAIN && s->view.element == 1;
  long at = s->at[rank], to = spans[rank].at, end = s->model->settled - s->view.shift;
  int at_end = whence == 2 && plain && end >= 0 && s->model->settled == s->model->size;
  if (!live || !s->in || !spans[rank].count || (lazy && at == to)) return at_end;
  if (at_end) OK(MPI_File_seek(s->file, to - end, MPI_SEEK_END));
  else if (whence == 1) OK(MPI_File_seek(s->file, to - at, MPI_SEEK_CUR));
  else OK(MPI_File_seek(s->file, to, MPI_SEEK_SET));
  return at_end;
}

#define DO(name, ...) \
  OK(writes ? MPI_File_write##name(__VA_ARGS__) : MPI_File_read##name(__VA_ARGS__))
#define LATER(name, ...) \
  OK(writes ? MPI_File_iwrite##name(__VA_ARGS__) : MPI_File_iread##name(__VA_ARGS__))
#define SPLIT(name, file, data, ...) \
  (DO(name##_begin, file, __VA_ARGS__), meanwhile ? (void)MPI_Barrier(MPI_COMM_WORLD) : (void)0, \
   DO(name##_end, file, data, &status))

/* The calls of one rank. */
static void calls(Session *s, int writes, enum Manner manner, long at, void *data, int count,
                  MPI_Datatype type, int meanwhile) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_File file = s->file;
  int later = manner == AT_LATER || manner == OWN_LATER || manner == AT_ALL_LATER
              || manner == OWN_ALL_LATER;
  switch (manner) {
  case AT: DO(_at, file, at, data, count, type, &status); break;
  case OWN: DO(, file, data, count, type, &status); break;
  case AT_LATER: LATER(_at, file, at, data, count, type, &request); break;
  case OWN_LATER: LATER(, file, data, count, type, &request); break;
  case AT_ALL: DO(_at_all, file, at, data, count, type, &status); break;
  case OWN_ALL: DO(_all, file, data, count, type, &status); break;
  case AT_ALL_LATER: LATER(_at_all, file, at, data, count, type, &request); break;
  case OWN_ALL_LATER: LATER(_all, file, data, count, type, &request); break;
  case AT_ALL_SPLIT: SPLIT(_at_all, file, data, at, data, count, type); break;
  case OWN_ALL_SPLIT: SPLIT(_all, file, data, data, count, type); break;
  case ORDERED: DO(_ordered, file, data, count, type, &status); break;
  default: SPLIT(_ordered, file, data, data, count, type); break;
  }
  if (later && meanwhile) MPI_Barrier(MPI_COMM_WORLD);
  if (later) OK(MPI_Wait(&request, &status));
}

static void by_posix(Session *s, int writes, const Span *own, unsigned char *data) {
  ssize_t done = writes ? pwrite(s->fd, data, own->count, own->at)
                        : pread(s->fd, data, own->count, own->at);
  IS(done == own->count);
}

/* Moves the bytes of this rank between the file and a buffer, which may have gaps. */
static void carry(Session *s, int writes, enum Manner manner, const Span *own, int gaps,
                  int meanwhile) {
  static unsigned char data[2 * LONGEST];
  const View *view = &s->view;
  long each = view->element, step = gaps ? 2 * each : each;
  MPI_Datatype element = each == 4 ? MPI_INT : MPI_BYTE, type = element;
  memset(data, 0xee, own->count * step);
  for (long i = 0; writes && i < own->count; i++)
    memcpy(data + i * step, s->model->bytes + place(view, rank, own->at + i), each);
  if (gaps) MPI_Type_vector(own->count, 1, 2, element, &type), MPI_Type_commit(&type);
  if (s->kind == POSIX) by_posix(s, writes, own, data);
  else calls(s, writes, manner, own->at, data, gaps ? !!own->count : own->count, type, meanwhile);
  int count = own->count;
  if (s->kind != POSIX && own->count) MPI_Get_count(&status, element, &count);
  if (count != own->count) wrong("count", s->model->path, count);
  for (long i = 0; i < own->count; i++) {
    long at = place(view, rank, own->at + i);
    if (alike(s->model, data + i * step, at, each) < each)
      wrong(writes ? "buffer" : "bytes", s->model->path, at);
  }
  if (gaps) MPI_Type_free(&type);
}

static void access_pieces(Session *s, int writes) {
  enum Manner manner = draw(MANNERS);
  int gaps = !draw(4) && s->kind != POSIX, meanwhile = draw(2), asked = 0;
  Span spans[RANKS];
  /* What is written between the pieces of others may be lost, if they write back what they read. */
  if (writes && s->kind == HALVES && manner >= AT_ALL) manner = AT;
  if (writes && s->view.kind != PLAIN && s->sieves && manner < AT_ALL) manner = AT_ALL;
  if (lacks_later && (manner == AT_ALL_LATER || manner == OWN_ALL_LATER)) manner -= 2;
  /* Both MPIs lose bytes of such calls if some ranks have none, or with gaps in memory. */
  int whole = manner == AT_ALL_LATER || manner == OWN_ALL_LATER;
  if (whole) gaps = 0;
  pieces(s, spans, writes, whole);
  if (manner >= ORDERED && (s->kind != WORLD || s->view.kind != PLAIN)) manner = AT_ALL;
  if (manner >= ORDERED)
    for (long of = 0, at = s->shared; of < size; at += spans[of++].count) spans[of].at = at;
  if (!fits(&s->view, spans, writes ? LONGEST : s->model->size)) return;
  if ((writes && s->busy) || !apart(s->model, &s->view, spans, writes)) separate(s);
  if (!apart(s->model, &s->view, spans, writes)) return;
  SAY("  %s manner %d gaps %d meanwhile %d: rank 0 at %ld count %ld, rank 1 at %ld count %ld\n",
      writes ? "write" : "read", manner, gaps, meanwhile, spans[0].at, spans[0].count, spans[1].at,
      spans[1].count);
  int all = s->kind < POSIX && manner >= AT_ALL;
  account(s->model, &s->view, spans, writes, all, ++salt);
  if (s->kind != POSIX && by_pointer(manner)) asked = seek_to(s, spans);
  /* Only collective calls let others go on. */
  if (live && s->in && (all || spans[rank].count))
    carry(s, writes, manner, &spans[rank], gaps, meanwhile && all && s->kind == WORLD);
  for (int of = 0; of < size; of++) {
    if (by_pointer(manner) && spans[of].count) s->at[of] = spans[of].at + spans[of].count;
    if (manner >= ORDERED) s->shared += spans[of].count;
  }
  s->busy = writes && all;
  if (asked) separate(s);
}

static void ask_size(Session *s) {
  MPI_Offset bytes = 0;
  struct stat found;
  separate(s);
  SAY("  get_size\n");
  if (live && s->in && s->kind < POSIX) OK(MPI_File_get_size(s->file, &bytes));
  if (live && s->kind == POSIX) IS(fstat(s->fd, &found) == 0), bytes = found.st_size;
  if (live && s->in && bytes != s->model->size) wrong("size", s->model->path, bytes);
  separate(s);
}

static void change_size(Session *s) {
  long was = s->model->size, bytes = draw(2) ? draw(was + 1) : was + draw(grain);
  int allocate = !draw(3) && allocates;
  if (bytes > LONGEST) return;
  separate(s);
  SAY("  %s %ld of %ld\n", allocate ? "allocate" : "set_size", bytes, was);
  if (live && s->in && s->kind < POSIX && allocate) OK(MPI_File_preallocate(s->file, bytes));
  if (live && s->in && s->kind < POSIX && !allocate) OK(MPI_File_set_size(s->file, bytes));
  if (live && s->kind == POSIX && rank == size / 2)
    IS((allocate ? posix_fallocate(s->fd, 0, bytes ? bytes : 1) : ftruncate(s->fd, bytes)) == 0);
  if (allocate && s->kind == POSIX && !bytes) bytes = 1;
  if (!allocate || bytes > was) resize(s->model, bytes);
  separate(s);
}

static void act(Session *s, int calm) {
  int dice = draw(100), reads = s->kind == POSIX || !(s->amode & MPI_MODE_WRONLY);
  int of_mpi = s->kind < POSIX;
  if (s->amode & MPI_MODE_RDONLY) access_pieces(s, 0);
  else if (dice < 60 || calm) dice % 10 || !of_mpi ? access_pieces(s, 1) : change_view(s);
  else if (dice < 75 && reads) access_pieces(s, 0);
  else if (dice < 80) ask_size(s);
  else if (dice < 85) change_size(s);
  else if (dice < 90 && of_mpi) change_view(s);
  else if (dice < 93 && of_mpi) {
    separate(s);
    s->atomic = draw(2);
    if (live && s->in) OK(MPI_File_set_atomicity(s->file, s->atomic));
  } else if (dice < 97) separate(s);
  else meet(0);
}

/* All ranks read all of it. */
static void read_whole(Model *model) {
  Session s;
  begin(&s, model, 1);
  Span all = {0, model->size};
  enum Manner manner = draw(2) ? AT : AT_ALL;
  struct stat found = {0};
  SAY("  read all of %s\n", model->path);
  if (live && stat(model->path, &found) == 0 && found.st_size != model->size)
    wrong("size by stat", model->path, found.st_size);
  if (live && s.in) carry(&s, 0, manner, &all, 0, 0);
  end(&s);
}

/* A file that MPI deletes when it is closed. */
static void scratch(int step) {
  Model model = {0};
  Session one = {0}, *s = &one;
  char byte = rank, other = 0;
  sprintf(model.path, "ckpt/step_%d/scratch.dat", step);
  s->model = &model;
  SAY("  scratch\n");
  if (!live) return;
  int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
  OK(MPI_File_open(MPI_COMM_WORLD, model.path, amode, MPI_INFO_NULL, &s->file));
  OK(MPI_File_write_at(s->file, 9 * rank, &byte, 1, MPI_BYTE, &status));
  OK(MPI_File_read_at(s->file, 9 * rank, &other, 1, MPI_BYTE, &status));
  IS(byte == other);
  OK(MPI_File_close(&s->file));
  MPI_Barrier(MPI_COMM_WORLD);
  IS(access(model.path, F_OK) != 0);
}

/* Looks at the checkpoint before, or changes it. */
static void look_back(int step, int files) {
  int changes = !draw(4);
  Model *before = &models[step - 1][draw(files)];
  if (!before->exists) return;
  SAY(" back, changes %d\n", changes);
  if (!changes) {
    read_whole(before);
    return;
  }
  Session s;
  begin(&s, before, 0);
  for (int i = 0; i < 2; i++) act(&s, 0);
  end(&s);
}

static void write_files(int files, int calm) {
  Session sessions[FILES];
  Model *of = models[0];
  int together = files > 1 && draw(2);
  for (int first = 0; first < files; first += together ? files : 1)
    for (int times = 1 + (draw(names ? 9 : 3) ? 0 : draw(3)); times > 0; times--) {
      int count = together ? files : 1;
      for (int i = 0; i < count; i++) begin(&sessions[i], &of[first + i], 0);
      for (int acts = 2 + draw(6) * count; acts > 0; acts--) act(&sessions[draw(count)], calm);
      for (int i = 0; i < count; i++) end(&sessions[i]);
    }
}

static void one_step(int step, int files) {
  char folder[40];
  int odd = step > 2 && mixed(seed * 77 + step) % 4 == 0, calm = shy && !odd;
  state = mixed(seed * 1000003 + (odd ? step : 0));
  salt = mixed(run * 1000 + step);
  sprintf(folder, "ckpt/step_%d", step);
  SAY("step %d odd %d calm %d\n", step, odd, calm);
  if (live && rank == 0) mkdir("ckpt", 0777), mkdir(folder, 0777);
  barrier();
  for (int i = 0; names && i < files; i++)
    for (int other = 1; other <= steps; other++)
      if (other % names == step % names && models[other][i].exists && other != step)
        take_over(&models[step][i], &models[other][i]);
  for (int i = 0; names && i < files; i++) models[step][i].older = models[step][i].exists;
  memcpy(models[0], models[step], sizeof models[0]);
  write_files(files, calm);
  memcpy(models[step], models[0], sizeof models[0]);
  if (!draw(12)) scratch(step);
  for (int i = 0; i < files; i++)
    if (!draw(calm ? 9 : 3)) read_whole(&models[step][i]);
  for (int i = 4 + draw(6); i > 0; i--) {
    barrier();
    if (live) usleep(5000);
  }
  for (int i = 0; i < files; i++) {
    sealed[step][i] = models[step][i];
    sealed[step][i].bytes = malloc(2 * LONGEST);
    sealed[step][i].known = sealed[step][i].bytes + LONGEST;
    memcpy(sealed[step][i].bytes, models[step][i].bytes, 2 * LONGEST);
  }
  if (step > 1 && !draw(calm ? 9 : 3)) look_back(step, files);
  for (int i = 0; keeps && step > keeps && i < files; i++) {
    Model *old = &models[step - keeps][i];
    if (live && rank == 0 && old->exists && unlink(old->path)) wrong("unlink", old->path, 0);
    vanish(old);
  }
  barrier();
}

static int is(const Model *model, const unsigned char *bytes, long count) {
  return count == model->size && alike(model, bytes, 0, count) == count;
}

/* Whether a file without a number is of that step: it has what was written in it. */
static int is_of(int step, int i) {
  static unsigned char bytes[LONGEST + 1];
  const Model *model = &sealed[step][i];
  int fd = open(model->path, O_RDONLY), count = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
  close(fd);
  return is(model, bytes, count) || is(&models[step][i], bytes, count);
}

/* All have to find the newest checkpoint whole. */
static void restart(int files) {
  static unsigned char bytes[LONGEST + 1];
  int found = steps;
  for (int all = 0; rank == 0 && found > 0; found--) {
    all = 1;
    for (int i = 0; i < files; i++)
      all &= names ? is_of(found, i) : access(sealed[found][i].path, F_OK) == 0;
    if (all) break;
  }
  MPI_Bcast(&found, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("found %d\n", found);
  for (int i = 0; found && i < files; i++) {
    const Model *model = &sealed[found][i];
    MPI_File file;
    MPI_Offset end;
    int count = -1, fd = open(model->path, O_RDONLY);
    if (fd >= 0) count = read(fd, bytes, sizeof bytes);
    close(fd);
    if (!is(model, bytes, count) && !is(&models[found][i], bytes, count))
      wrong("what is found", model->path, count);
    MPI_Barrier(MPI_COMM_WORLD);
    if (MPI_File_open(MPI_COMM_WORLD, model->path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file))
      wrong("open", model->path, 0);
    memset(bytes, 0, sizeof bytes);
    MPI_File_get_size(file, &end);
    MPI_File_read_at_all(file, 0, bytes, count, MPI_BYTE, &status);
    if (end != count) wrong("the size that MPI finds", model->path, end);
    if (!is(model, bytes, count) && !is(&models[found][i], bytes, count))
      wrong("what MPI finds", model->path, count);
    MPI_File_close(&file);
  }
}

/* Tells of each file that is not as the program has left it. */
static void compare(int files) {
  static unsigned char bytes[LONGEST + 1];
  for (int i = 0; rank == 0 && i < steps * files; i++) {
    const Model *model = &models[1 + i / files][i % files];
    if (names && !model->exists) continue; /* a later one has its name */
    int fd = open(model->path, O_RDONLY), count = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    long at = alike(model, bytes, 0, count < model->size ? count : model->size);
    if ((fd >= 0) != model->exists || count != model->size || at < count)
      printf("differs %s: %d bytes, %ld of %ld alike\n", fd < 0 ? "lacks" : model->path, count, at,
             model->size);
    close(fd);
  }
}

static void pause_at(const char *name) {
  if (rank == 0) {
    close(open(name, O_CREAT | O_WRONLY, 0644));
    while (access(name, F_OK) == 0) usleep(10000);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  static const int grains[] = {100, 3000, 20000, 40000};
  int reads, looks, runs, from, stop;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argv[argc - 1][0] == '-') {
    allocates = !strchr(argv[argc - 1], 'a'), lacks_later = !!strchr(argv[argc - 1], 'l');
    always_sieves = !!strchr(argv[argc - 1], 's');
    names = strchr(argv[argc - 1], '1') ? 1 : strchr(argv[argc - 1], '2') ? 2 : 0;
    argc--;
  }
  steps = names ? STEPS : 6;
  seed = atol(argv[1]), runs = atoi(argv[3]);
  reads = !strcmp(argv[2], "read"), looks = !strcmp(argv[2], "left");
  from = argc > 4 ? atoi(argv[4]) : 1, stop = argc > 6 ? atoi(argv[5]) : 0;
  verbose = getenv("RANDOM_IO_VERBOSE") != NULL;
  state = mixed(seed);
  int files = 1 + !draw(3), numbered = draw(2);
  shy = draw(3), grain = grains[draw(4)], keeps = draw(3) ? 0 : 2 + draw(2);
  for (int step = 1; step <= steps; step++)
    for (int i = 0; i < FILES; i++) {
      make(&models[step][i]);
      if (names) sprintf(models[step][i].path, "ckpt/%s%c.dat", i ? "b" : "a", 'x' + step % names);
      else
        sprintf(models[step][i].path, "ckpt/step_%d/%s%.0d.dat", step, i ? "b" : "a",
                numbered * step);
    }
  for (run = 0; run <= runs; run++)
    for (int step = 1; step <= steps; step++) {
      live = !reads && !looks && run == runs && step >= from;
      one_step(step, files);
      if (live && step == stop) pause_at(argv[6]);
    }
  if (reads) restart(files);
  if (looks) compare(files);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("end\n");
  MPI_Finalize();
  return 0;
}
