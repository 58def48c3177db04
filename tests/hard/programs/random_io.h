/* What `random_io` knows of its files: every rank keeps the bytes that each of them has to have,
 * and who has written or read them since all ranks have last synchronised. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, LONGEST = 1 << 19, STEPS = 10, FILES = 2 };

typedef struct {
  char path[80];
  int exists, older; /* older: what an earlier checkpoint has left under that name */
  long size, settled; /* now, and when all ranks have last synchronised */
  unsigned char *bytes, *known, *writer, *readers; /* what nobody has written may be anything */
} Model;

/* How offsets of a rank, in elements, lie in the file. */
typedef struct {
  enum { PLAIN, STRIPES, STRUCK, TILES } kind;
  long shift;
  int element, block, rows;
} View;

typedef struct {
  long at, count;
} Span;

static int rank, size, live;
static unsigned long long state;

static unsigned long long mixed(unsigned long long x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/* The same number on all ranks. */
static long draw(long below) {
  state += 0x9e3779b97f4a7c15ull;
  return (long)(mixed(state) % (unsigned long long)below);
}

static void wrong(const char *what, const char *path, long at) {
  printf("WRONG rank %d: %s of %s at %ld\n", rank, what, path, at);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Where the byte at that place of an element is. */
static long place(const View *view, int of, long at) {
  long block = view->block, columns = size / 2;
  if (view->kind == PLAIN) return view->shift + at * view->element;
  if (view->kind != TILES)
    return view->shift + view->element * ((at / block * size + of) * block + at % block);
  long tile = at / (view->rows * block), row = at % (view->rows * block) / block;
  long line = (tile * 2 + of / columns) * view->rows + row;
  return view->shift + view->element * (line * block * columns + of % columns * block + at % block);
}

static void settle(Model *model) {
  memset(model->writer, 0, LONGEST);
  memset(model->readers, 0, LONGEST);
  model->settled = model->size;
}

static void resize(Model *model, long bytes) {
  if (bytes < model->size) memset(model->known + bytes, 0, model->size - bytes);
  model->size = bytes;
}

static void vanish(Model *model) {
  resize(model, 0);
  settle(model);
  model->exists = 0;
}

/* Lets `model` begin with what `old` has under the same name. */
static void take_over(Model *model, Model *old) {
  memcpy(model->bytes, old->bytes, 2 * LONGEST);
  model->size = old->size;
  settle(model);
  model->exists = model->older = old->exists;
  old->exists = 0;
}

static void make(Model *model) {
  model->bytes = calloc(4, LONGEST);
  model->known = model->bytes + LONGEST;
  model->writer = model->known + LONGEST;
  model->readers = model->writer + LONGEST;
}

/* Whether each rank's accesses are to bytes that no other one accesses without synchronising. */
static int apart(Model *model, const View *view, const Span *spans, int writes) {
  static unsigned char now[LONGEST];
  memset(now, 0, LONGEST);
  for (int of = 0; of < size; of++)
    for (long i = spans[of].at; i < spans[of].at + spans[of].count; i++)
      for (long k = 0, at = place(view, of, i); k < view->element; k++, at++) {
        int own = model->writer[at] == of + 1, none = !model->writer[at];
        if (writes && ((!own && !none) || model->readers[at] & ~(1 << of) || now[at])) return 0;
        if (!writes && !own && (!none || at >= model->settled)) return 0;
        now[at] = 1;
      }
  return 1;
}

/* Returns how many bytes from `at` on are as they have to be. */
static long alike(const Model *model, const unsigned char *bytes, long at, long count) {
  long i = 0;
  while (i < count && (!model->known[at + i] || model->bytes[at + i] == bytes[i])) i++;
  return i;
}

static int fits(const View *view, const Span *spans, long end) {
  for (int of = 0; of < size; of++)
    if (spans[of].count
        && place(view, of, spans[of].at + spans[of].count - 1) + view->element > end)
      return 0;
  return 1;
}

/* Notes what each rank does; `salt` makes the bytes of each write others. What all write together
 * may be written by another rank, and later. */
static void account(Model *model, const View *view, const Span *spans, int writes, int by_all,
                    unsigned long long salt) {
  for (int of = 0; of < size; of++)
    for (long i = spans[of].at; i < spans[of].at + spans[of].count; i++)
      for (long k = 0, at = place(view, of, i); k < view->element; k++, at++) {
        if (!writes) {
          model->readers[at] |= 1 << of;
          continue;
        }
        model->writer[at] = by_all ? RANKS + 1 : of + 1;
        model->known[at] = 1;
        model->bytes[at] = mixed(salt + (at >> 3)) >> (at & 7) * 8;
        if (model->size <= at) model->size = at + 1;
      }
}
