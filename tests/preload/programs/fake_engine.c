/* An engine that the tests can see through: every path below $FAKE_PREFIX whose last component
 * begins with "c" lies in $FAKE_CACHE under its relative path, with '/' turned into '+'. "g..."
 * is a name whose file is on another node (stat only). "f..." fails with EDOM. All else passes;
 * of "n..." the engine never wants to hear again, until "x..." is opened.
 * "l..." stays where it is, and what is done to it is logged and told when it is closed.
 * "parted_..." is cached and logged: bytes FAKE_AWAY ("start-end") of it are not here, with those
 * of other nodes it is FAKE_SIZE bytes long, and it is evacuated by what is logged.
 * At the open of "c_raises" the process gets SIGUSR1.
 * Each call appends a line to $FAKE_LOG. Mirrors src/abi/lib.rs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASS, REDIRECT, FAIL, DONE, STAT };

struct answer { uint64_t size; uint32_t mode, uid, gid, nlink; uint64_t ino; int64_t sec, nsec; };
struct verdict {
    uint32_t kind; int err; uint32_t foreign; uint64_t token; struct answer stat; char path[4096];
};
struct host {
    size_t size; void (*enter)(void); const char *library; int (*open_count)(uint64_t);
    void (*leave)(void); void (*names_changed)(void); void (*wake)(uint64_t);
    void (*move_out)(uint64_t);
};
struct idle { uint32_t *left; size_t world, mask, thread; const uint64_t *points, *round; };
struct access_log {
    uint64_t given, traits; struct { uint64_t tag, round, start, end; } entries[1 << 16];
};
typedef void (*entry_fn)(void *, const char *, unsigned char, uint64_t, int);
struct engine {
    size_t size; uint32_t version;
    const char *(*refusal)(void);
    int (*init)(const struct host *);
    const char *(*prefix)(void);
    void (*sync)(size_t, int);
    struct idle (*idle)(void);
    void (*note)(int, const char *);
    const char *(*file_open)(size_t, const char *, int);
    int (*file_opened)(size_t, int);
    void (*file_call)(int, int);
    void (*open)(const char *, int, uint32_t, struct verdict *);
    int (*opened)(uint64_t, int, int);
    const struct access_log *(*log)(uint64_t);
    void (*written)(uint64_t, int, uint64_t, uint32_t);
    int (*reuse)(uint64_t, int);
    int (*closed)(uint64_t);
    void (*failed)(uint64_t, int);
    int (*evacuate)(uint64_t, int, int);
    int (*reserve)(uint64_t, int, uint64_t, uint64_t);
    void (*lookup)(const char *, int, struct verdict *);
    void (*change)(const char *, struct verdict *);
    void (*unlink)(const char *, struct verdict *);
    void (*rename)(const char *, const char *, struct verdict *);
    void (*link)(const char *, const char *, int, struct verdict *);
    void (*rmdir)(const char *, struct verdict *);
    int (*list)(const char *, entry_fn, void *);
    const char *(*address)(void);
    const char *(*alias)(size_t, const char **);
    const uint64_t *(*turns)(void);
    int (*has)(uint64_t, uint64_t, uint64_t);
    uint64_t (*file_size)(uint64_t);
    int (*hints)(size_t, const char *);
};

static const struct host *host;
static char prefix[4096], cache[4096];

static int log_fd = -1;
static uint64_t tokens;
static const uint64_t LAZY = 1ull << 63, LOGGED = 1ull << 62, PARTED = 64;
static uint64_t points_all;
static struct access_log *access_log;
static int has_left; /* the file of the log is elsewhere, where nothing is logged */
static char copied[8192], parted[4096];

static void say(const char *what, const char *path, long number)
{
    char line[5000];
    int n = snprintf(line, sizeof line, "%s %s %ld\n", what, path ? path : "-", number);
    if (log_fd >= 0 && write(log_fd, line, n) != n) abort();
}

static const char *last(const char *path) { return strrchr(path, '/') + 1; }

static int is_parted(const char *path) { return !strncmp(last(path), "parted_", 7); }

static int cached(const char *path, char *place)
{
    size_t n = strlen(prefix);
    if (strncmp(path, prefix, n) || path[n] != '/') return 0;
    if (last(path)[0] != 'c' && !is_parted(path)) return 0;
    if (strlen(cache) + strlen(path + n) >= 4096) abort();
    strcat(strcat(strcpy(place, cache), "/"), path + n + 1);
    for (char *p = place + strlen(cache) + 1; *p; p++) if (*p == '/') *p = '+';
    return 1;
}

static int answer(const char *path, struct verdict *v)
{
    if (last(path)[0] == 'f') { v->kind = FAIL; v->err = EDOM; return 1; }
    if (last(path)[0] == 'n') { v->foreign = 1; return 0; }
    if (last(path)[0] == 'x') host->names_changed();
    if (cached(path, v->path)) { v->kind = REDIRECT; return 1; }
    return 0;
}

static const char *refusal(void) { return getenv("FAKE_REFUSAL"); }

static int init(const struct host *h)
{
    host = h;
    if (getenv("FAKE_LOG"))
        log_fd = fcntl(open(getenv("FAKE_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644),
                       F_DUPFD_CLOEXEC, 500);
    say("init", h->library, 0);
    if (!getenv("FAKE_PREFIX") || !realpath(getenv("FAKE_PREFIX"), prefix)) return 0;
    if (!realpath(getenv("FAKE_CACHE"), cache)) return 0;
    return 1;
}

static const char *get_prefix(void) { return prefix; }
static void sync_(size_t comm, int kind)
{
    (void)comm;
    points_all++;
    say("sync", 0, kind);
    if (getenv("FAKE_MOVE_OUT")) host->move_out(tokens | LOGGED); /* the file opened last */
}

/* With FAKE_IDLE so many calls on the communicator FAKE_WORLD need not be told. */
static struct idle idle(void) {
    static uint32_t left;
    const char *points = getenv("FAKE_IDLE"), *world = getenv("FAKE_WORLD");
    left = points ? (uint32_t)atoi(points) : 0;
    points_all = left;
    size_t all = world ? (size_t)atoi(world) : 0;
    return (struct idle){ &left, all, 0xffffffff, 0, &points_all, NULL };
}
static const char *file_open(size_t comm, const char *path, int mode)
{
    (void)comm;
    say("file_open", path, mode);
    return getenv("FAKE_STORE");
}
static int file_opened(size_t comm, int opened)
{
    (void)comm;
    say("file_opened", 0, opened);
    return opened && getenv("FAKE_ALL_OPEN");
}
static void file_call(int mark, int closes) { say("file_call", 0, mark * 2 + closes); }
static void note(int event, const char *path) { say("note", path, event); }

static void open_(const char *path, int flags, uint32_t mode, struct verdict *v)
{
    say("open", path, flags & (O_ACCMODE | O_CREAT | O_TRUNC | O_EXCL));
    (void)mode;
    if (!strcmp(last(path), "c_raises")) raise(SIGUSR1);
    if (answer(path, v) && v->kind == REDIRECT) {
        /* The first answer is out of date when the program acts on it. */
        static int moved;
        if (strstr(path, "_moves") && !moved++) strcat(v->path, "/old");
        v->token = __atomic_add_fetch(&tokens, 1, __ATOMIC_SEQ_CST);
        /* Of two openers the second copies what the first has changed. */
        if (!strcmp(last(path), "c_lazy") && (flags & O_ACCMODE) && !(flags & O_TRUNC))
            v->token |= LAZY;
        copied[0] = 0;
    } else if (last(path)[0] == 'l' && flags & O_ACCMODE) {
        v->token = __atomic_add_fetch(&tokens, 1, __ATOMIC_SEQ_CST);
    }
    if (v->token && (last(path)[0] == 'l' || is_parted(path))) {
        v->token |= LOGGED;
        has_left = 0;
        if (!access_log)
            access_log = mmap(0, sizeof *access_log, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (is_parted(path)) {
            access_log->traits |= PARTED;
            snprintf(parted, sizeof parted, "%s", v->path);
        }
    }
}
static const struct access_log *log_of(uint64_t token)
{
    if (has_left) return 0;
    (void)token;
    return access_log;
}
static void tell_log(void)
{
    static const char deeds[] = "?wrscg";
    for (uint64_t at = 0; at < access_log->given; at++) {
        uint64_t tag = access_log->entries[at].tag;
        dprintf(log_fd, "access %c%d@%d %ld %ld\n", deeds[tag & 15], (int)(tag >> 4 & 15),
                (int)(tag >> 8), (long)access_log->entries[at].start,
                (long)access_log->entries[at].end);
    }
    access_log->given = 0;
    say("traits", 0, access_log->traits);
}
static int no_room(const char *when)
{
    const char *found = getenv("FAKE_NO_ROOM");
    return found && !strcmp(found, when);
}

static int opened(uint64_t token, int fd, int err)
{
    (void)fd;
    (void)token;
    say("opened", 0, err);
    return no_room("open");
}
static int reserve(uint64_t token, int fd, uint64_t offset, uint64_t bytes)
{
    (void)fd;
    (void)token;
    say("reserve", 0, offset + bytes);
    return no_room("later");
}
static void written(uint64_t token, int fd, uint64_t bytes, uint32_t crc32)
{
    char text[64];
    struct stat found;
    if (fstat(fd, &found) || (uint64_t)found.st_size != bytes) return;
    (void)token;
    snprintf(text, sizeof text, "%08x", crc32);
    say("written", text, bytes);
}
/* There is one for every file whose name begins with c_over: as long as FAKE_OLD says. */
static int reuse(uint64_t token, int fd)
{
    static char old[1 << 16];
    char link[64], self[4096] = "", place[5000];
    (void)token;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, self, sizeof self - 1) < 0 || strncmp(last(self), "c_over", 6)) return -1;
    snprintf(place, sizeof place, "%s/old", cache);
    int to = open(place, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    struct stat like;
    if (fstat(fd, &like) || fchmod(to, like.st_mode & 07777)) abort();
    memset(old, 'o', sizeof old);
    for (long left = atol(getenv("FAKE_OLD")); left > 0; left -= sizeof old)
        if (write(to, old, sizeof old) != sizeof old) abort();
    if (lseek(to, 0, SEEK_SET) != 0) abort();
    say("reuse", last(self), 0);
    return to;
}
static int closed(uint64_t token)
{
    say("closed", 0, host->open_count(token));
    if (token & LOGGED) tell_log();
    return 0;
}
static void failed(uint64_t token, int err) { (void)token; say("failed", 0, err); }

/* The file of a lazy token gets a copy, all openers the same one. */
static int evacuate_lazy(uint64_t token, int fd)
{
    char data[100];
    if (getenv("FAKE_FULL")) return -1;
    int first = !copied[0];
    if (first) snprintf(copied, sizeof copied, "%s/c_lazy.%d", cache, (int)token);
    int to = open(copied, O_RDWR | O_CREAT, 0644);
    ssize_t n = pread(fd, data, sizeof data, 0);
    if (to < 0 || n < 0 || (first && pwrite(to, data, n, 0) != n)) abort();
    lseek(to, lseek(fd, 0, SEEK_CUR), SEEK_SET);
    return to;
}

/* What the log says that this node has written is put over what lies there already. */
static void copy_logged(int from, int to)
{
    char data[4096];
    for (uint64_t at = 0; at < access_log->given; at++) {
        uint64_t start = access_log->entries[at].start, end = access_log->entries[at].end;
        if ((access_log->entries[at].tag & 15) != 1) continue;
        for (ssize_t n; start < end; start += n) {
            n = pread(from, data, end - start < sizeof data ? end - start : sizeof data, start);
            if (n <= 0 || pwrite(to, data, n, start) != n) abort();
        }
    }
}

static int evacuate(uint64_t token, int fd, int error)
{
    if (token & LAZY) {
        say("evacuate", "lazy", error);
        return evacuate_lazy(token, fd);
    }
    const char *place = getenv("FAKE_EVACUATE");
    char buffer[65536];
    say("evacuate", place, 0);
    if (!place) return -1;
    int to = open(place, O_RDWR | O_CREAT, 0644);
    off_t at = lseek(fd, 0, SEEK_CUR);
    char name[64], self[4096] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, self, sizeof self - 1) < 0) return -1;
    /* The tests' full store is /dev/full, which never ends. */
    int from = open(strcmp(self, "/dev/full") ? self : "/dev/null", O_RDONLY);
    ssize_t n;
    if (token & LOGGED) {
        has_left = 1;
        copy_logged(from, to);
        /* As another rank of the node does, which writes to the same file. */
        if (strcmp(self, "/dev/full") && truncate(self, 1 << 20)) abort();
    } else {
        while ((n = read(from, buffer, sizeof buffer)) > 0) if (write(to, buffer, n) != n) abort();
    }
    close(from);
    lseek(to, at, SEEK_SET);
    return to;
}

static void lookup(const char *path, int follow, struct verdict *v)
{
    say("lookup", path, follow);
    if (last(path)[0] == 'g') {
        v->kind = STAT;
        v->stat = (struct answer){ .size = 4242, .mode = S_IFREG | 0644, .nlink = 1, .ino = 99,
                                   .sec = 1000000000, .nsec = 5 };
        return;
    }
    answer(path, v);
}
static void change(const char *path, struct verdict *v) { say("change", path, 0); answer(path, v); }
static void unlink_(const char *path, struct verdict *v)
{
    say("unlink", path, 0);
    answer(path, v);
}

static void rename_(const char *from, const char *to, struct verdict *v)
{
    char a[4096], b[4096];
    say("rename", to, 0);
    int in = cached(from, a), out = cached(to, b);
    if (!in && !out) return;
    if (rename(in ? a : from, out ? b : to)) { v->kind = FAIL; v->err = errno; }
    else v->kind = DONE;
}

static void link_(const char *target, const char *path, int symbolic, struct verdict *v)
{
    char a[4096], b[4096];
    say(symbolic ? "symlink" : "link", path, 0);
    if (symbolic || !cached(target, a) || !cached(path, b)) return;
    if (link(a, b)) { v->kind = FAIL; v->err = errno; }
    else v->kind = DONE;
}
static void rmdir_(const char *path, struct verdict *v)
{
    say("rmdir", path, 0);
    if (last(path)[0] == 'f') { v->kind = FAIL; v->err = ENOTEMPTY; }
}

static int list(const char *path, entry_fn entry, void *context)
{
    say("list", path, 0);
    if (!strcmp(last(path), "listed")) {
        entry(context, "c_one", 8, 1, 0);
        entry(context, "c_two", 8, 1, 0);
        entry(context, "there", 8, 1, 0);
        entry(context, "hidden", 8, 1, 1);
        return 4;
    }
    return 0;
}

static const char *address(void) { return NULL; }
static const char *alias(size_t index, const char **place)
{
    (void)index;
    (void)place;
    return NULL;
}

static const uint64_t *turns(void) { return NULL; }

static int has(uint64_t token, uint64_t start, uint64_t end)
{
    unsigned long from = 0, to = 0;
    (void)token;
    if (getenv("FAKE_AWAY")) sscanf(getenv("FAKE_AWAY"), "%lu-%lu", &from, &to);
    dprintf(log_fd, "has %lu %lu\n", (unsigned long)start, (unsigned long)end);
    return end <= from || start >= to;
}
static uint64_t file_size(uint64_t token)
{
    struct stat here;
    uint64_t known = getenv("FAKE_SIZE") ? strtoul(getenv("FAKE_SIZE"), NULL, 10) : 0;
    (void)token;
    if (stat(parted, &here) || (uint64_t)here.st_size < known) return known;
    return (uint64_t)here.st_size;
}
static int hints(size_t comm, const char *path)
{
    (void)comm, (void)path;
    return getenv("FAKE_HINTS") ? atoi(getenv("FAKE_HINTS")) : 0;
}

static const struct engine table = {
    sizeof table, 24, refusal, init, get_prefix, sync_, idle, note, file_open, file_opened,
    file_call, open_, opened, log_of, written, reuse, closed, failed, evacuate, reserve, lookup,
    change, unlink_, rename_, link_, rmdir_, list, address, alias, turns, has, file_size, hints,
};

const struct engine *scr_engine_table(void) { return &table; }
