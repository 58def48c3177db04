/* Random sequences of file operations. Prints what each call returned, errno and content, so that
 * a run under the shim can be compared with one without it, line by line.
 *
 * usage: differ FIRST COUNT LENGTH; runs sequences FIRST .. FIRST+COUNT-1, each in a directory
 * qN of its own, with names that match patterns (c*, state*) and names that do not (n*). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FDS = 5, STREAMS = 3 };

static uint64_t state;
static int fds[FDS];
static FILE *streams[STREAMS];
static char top[PATH_MAX], home[PATH_MAX]; /* the prefix; the sequence's directory */
static FILE *out;
static int step;

static unsigned pick(unsigned n)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ (z >> 31)) % n);
}

static void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(out, format, list);
    va_end(list);
}

/* The result of a call: errno counts only when it failed. */
static void result(long value, int failed)
{
    if (failed) say(" = %ld %s\n", value, strerrorname_np(errno));
    else say(" = %ld\n", value);
}

static uint32_t hash(const void *data, size_t bytes)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * 16777619u;
    return h;
}

/* A name relative to the sequence's directory. */
static const char *name(void)
{
    static const char *const all[] = {
        "c0", "c1", "c2", "state", "state_old", "n0", "n1", "sub/c0", "sub/c1", "sub/n0",
        "deep/er/c0", "deep/er/n0", "link", "c1.tmp",
    };
    return all[pick(sizeof all / sizeof *all)];
}

static const char *directory(void)
{
    static const char *const all[] = { "sub", "deep", "deep/er", "c_dir", "n_dir", "." };
    return all[pick(sizeof all / sizeof *all)];
}

/* One of the spellings of a name; buffers go round. The working directory may be "sub". */
static const char *spelled(const char *plain)
{
    static char buffers[4][2 * PATH_MAX];
    static int turn;
    char *to = buffers[turn++ % 4], cwd[PATH_MAX];
    int deep = getcwd(cwd, sizeof cwd) && strcmp(cwd, home) != 0;
    switch (pick(6)) {
    case 0: snprintf(to, sizeof buffers[0], "%s/%s", home, plain); break;
    case 1: snprintf(to, sizeof buffers[0], "%s./%s", deep ? ".././" : "", plain); break;
    case 2: snprintf(to, sizeof buffers[0], "%s/./sub/..//%s", home, plain); break;
    default: snprintf(to, sizeof buffers[0], "%s%s", deep ? "../" : "", plain);
    }
    say(" %s", plain);
    return to;
}

/* Mostly one that is open. */
static int slot(void)
{
    int s = pick(FDS);
    for (int i = 0; i < FDS && fds[s] < 0 && pick(6); i++) s = (s + 1) % FDS;
    say(" #%d", s);
    return s;
}
static int stream_slot(void) { int s = pick(STREAMS); say(" $%d", s); return s; }

static void keep(int s, int fd)
{
    if (fd >= 0) {
        if (fds[s] >= 0) close(fds[s]);
        fds[s] = fd;
    }
    result(fd >= 0 ? 0 : -1, fd < 0);
}

static void told(const struct stat *s)
{
    /* The number of links may differ: the deletion of another name may be deferred. */
    say(" {%o %ld%s}", s->st_mode, S_ISDIR(s->st_mode) ? 0 : (long)s->st_size,
        s->st_mtime > 0 && s->st_mtime < 1500000000 ? " set" : "");
}

static void do_open(void)
{
    static const int access_mode[] = { O_RDONLY, O_WRONLY, O_RDWR };
    say("open");
    int s = slot(), flags = access_mode[pick(3)];
    if (pick(2)) flags |= O_CREAT;
    if (!pick(3)) flags |= O_TRUNC;
    if (!pick(4)) flags |= O_APPEND;
    if (!pick(8)) flags |= O_EXCL;
    if (!pick(12)) flags |= O_NOFOLLOW;
    if (!pick(20)) flags |= O_DIRECTORY;
    if (flags & O_EXCL) flags |= O_CREAT; /* without it, Linux does what it likes */
    if ((flags & O_ACCMODE) == O_RDONLY) flags &= ~O_TRUNC;
    static const mode_t modes[] = { 0644, 0600, 0640 };
    mode_t mode = modes[pick(3)];
    say(" %o", flags);
    const char *path = spelled(pick(10) ? name() : directory());
    if (!pick(6)) {
        int dir = open(home, O_RDONLY | O_DIRECTORY);
        const char *plain = strstr(path, "q") == path ? path : name();
        say(" at %s", plain);
        int fd = openat(dir, plain, flags, mode);
        int code = errno;
        close(dir);
        errno = code;
        keep(s, fd);
        return;
    }
    keep(s, open(path, flags, mode));
}

static void do_creat(void)
{
    say("creat");
    int s = slot();
    keep(s, creat(spelled(name()), 0644));
}

static void fill(char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) data[i] = 'a' + pick(26);
}

static void do_write(void)
{
    char data[600];
    size_t bytes = pick(sizeof data);
    fill(data, bytes);
    say("write");
    int s = slot();
    ssize_t n = pick(3) ? write(fds[s], data, bytes) : pwrite(fds[s], data, bytes, pick(2000));
    result(n, n < 0);
}

static void do_read(void)
{
    char data[3000] = "";
    say("read");
    int s = slot();
    ssize_t n = pick(2) ? read(fds[s], data, pick(sizeof data))
                        : pread(fds[s], data, sizeof data, pick(100));
    if (n > 0) say(" %08x", hash(data, n));
    result(n, n < 0);
}

static void do_position(void)
{
    say("position");
    int s = slot();
    struct stat st;
    long r;
    switch (pick(5)) {
    case 0: r = lseek(fds[s], pick(500), SEEK_SET); break;
    case 1: r = lseek(fds[s], 0, SEEK_END); break;
    case 2: r = ftruncate(fds[s], pick(900)); break;
    case 3: r = pick(2) ? fsync(fds[s]) : fdatasync(fds[s]); break;
    default:
        r = fstat(fds[s], &st);
        if (r == 0) told(&st);
    }
    result(r, r < 0);
}

static void do_close(void)
{
    say("close");
    int s = slot(), r = close(fds[s]);
    result(r, r < 0);
    fds[s] = -1;
}

static void do_copy_descriptor(void)
{
    say("dup");
    int from = slot(), to = slot();
    switch (pick(4)) {
    case 0: keep(to, dup(fds[from])); break;
    case 1: keep(to, fcntl(fds[from], F_DUPFD_CLOEXEC, 0)); break;
    case 2: {
        int r = fcntl(fds[from], F_GETFL);
        say(" flags %o", r < 0 ? 0 : r & (O_ACCMODE | O_APPEND));
        if (r >= 0 && pick(2)) r = fcntl(fds[from], F_SETFL, r ^ O_APPEND);
        result(r < 0 ? -1 : 0, r < 0);
        break;
    }
    default:
        if (fds[to] >= 0 && fds[from] >= 0) {
            int r = from == to || pick(2) ? dup2(fds[from], fds[to])
                                          : dup3(fds[from], fds[to], O_CLOEXEC);
            result(r == fds[to], 0);
        } else {
            say("\n");
        }
    }
}

static void do_fopen(void)
{
    static const char *const modes[] = { "r", "w", "a", "r+", "w+", "a+", "wx", "re", "rb+" };
    say("fopen");
    int s = stream_slot();
    const char *mode = modes[pick(9)];
    say(" %s", mode);
    const char *path = spelled(name());
    FILE *f;
    if (streams[s] && pick(2)) {
        say(" again");
        f = freopen(path, mode, streams[s]);
        streams[s] = NULL;
    } else {
        f = fopen(path, mode);
        int code = errno;
        if (f && streams[s]) fclose(streams[s]), streams[s] = NULL;
        errno = code;
    }
    if (f) streams[s] = f;
    result(f ? 0 : -1, !f);
}

static void do_fdopen(void)
{
    static const char *const modes[] = { "r", "w", "a", "r+" };
    say("fdopen");
    int s = slot(), to = stream_slot(), copy = dup(fds[s]);
    const char *mode = modes[pick(4)];
    say(" %s", mode);
    FILE *f = copy < 0 ? NULL : fdopen(copy, mode);
    int code = errno;
    if (!f && copy >= 0) close(copy);
    if (f) {
        if (streams[to]) fclose(streams[to]);
        streams[to] = f;
    }
    errno = code;
    result(f ? 0 : -1, !f);
}

static void do_stream(void)
{
    char data[700] = "";
    say("stream");
    int s = stream_slot();
    FILE *f = streams[s];
    if (!f) { say(" none\n"); return; }
    size_t bytes = pick(sizeof data);
    long r = 0;
    int what = pick(8);
    say(" %d", what);
    switch (what) {
    case 0:
    case 1:
        fill(data, bytes);
        fseek(f, 0, SEEK_CUR);
        r = fwrite(data, 1, bytes, f);
        r = ferror(f) ? -1 : r;
        break;
    case 2:
        fseek(f, 0, SEEK_CUR);
        r = fread(data, 1, bytes, f);
        say(" %08x", hash(data, r));
        break;
    case 3: r = fseek(f, pick(800), SEEK_SET); break;
    case 4: r = fflush(f); break;
    case 5: r = ftell(f); break;
    case 6: fseek(f, 0, SEEK_END); r = fprintf(f, "line %d\n", step); break;
    default: {
        struct stat st;
        r = fstat(fileno(f), &st);
        if (r == 0) told(&st);
    }
    }
    clearerr(f);
    say(" = %ld\n", r);
}

static void do_fclose(void)
{
    say("fclose");
    int s = stream_slot();
    int r = streams[s] ? fclose(streams[s]) : 1;
    streams[s] = NULL;
    result(r, r < 0);
}

static void do_stat(void)
{
    struct stat st = { 0 }, by_fd = { 0 };
    struct statx x;
    say("stat");
    const char *path = spelled(pick(5) ? name() : directory());
    int r, what = pick(6);
    say(" %d", what);
    switch (what) {
    case 0: r = lstat(path, &st); break;
    case 1: r = fstatat(AT_FDCWD, path, &st, pick(2) ? AT_SYMLINK_NOFOLLOW : 0); break;
    case 2:
        r = statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &x);
        if (r == 0) st.st_mode = x.stx_mode, st.st_size = x.stx_size, st.st_nlink = x.stx_nlink;
        break;
    case 3: {
        r = stat(path, &st);
        int fd = r == 0 ? open(path, O_RDONLY) : -1;
        if (fd >= 0) {
            fstat(fd, &by_fd);
            say(" same %d", by_fd.st_ino == st.st_ino && by_fd.st_dev == st.st_dev);
            close(fd);
        }
        break;
    }
    default: r = stat(path, &st);
    }
    if (r == 0) told(&st);
    result(r, r < 0);
}

static void do_access(void)
{
    static const int modes[] = { F_OK, R_OK, W_OK, R_OK | W_OK, X_OK };
    say("access");
    const char *path = spelled(pick(5) ? name() : directory());
    int mode = modes[pick(5)];
    int r = pick(2) ? access(path, mode) : faccessat(AT_FDCWD, path, mode, 0);
    result(r, r < 0);
}

static void do_remove(void)
{
    int what = pick(4);
    static const char *const words[] = { "unlink", "unlinkat", "remove", "remove" };
    say("%s", words[what]);
    const char *path = spelled(pick(8) ? name() : directory());
    if (strstr(path, "/.") == path + strlen(path) - 2) { say(" skipped\n"); return; }
    int r = what == 0 ? unlink(path) : what == 1 ? unlinkat(AT_FDCWD, path, 0) : remove(path);
    result(r, r < 0);
}

/* An open file in the cache cannot be linked (EPERM), nor can its directory move (EXDEV). */
static void close_all(void)
{
    for (int i = 0; i < FDS; i++) {
        if (fds[i] >= 0) close(fds[i]);
        fds[i] = -1;
    }
    for (int i = 0; i < STREAMS; i++) {
        if (streams[i]) fclose(streams[i]);
        streams[i] = NULL;
    }
}

static void do_rename(void)
{
    say("rename");
    int dirs = !pick(8);
    if (dirs) close_all();
    const char *from = spelled(dirs ? directory() : name());
    const char *to = spelled(dirs && pick(4) ? directory() : name());
    int what = pick(6), r;
    say(" %d", what);
    if (!strcmp(from + strlen(from) - 4, "link")) to = strstr(to, "link") ? to : "n1";
    if (what == 0) r = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    else if (what == 1) r = renameat(AT_FDCWD, from, AT_FDCWD, to);
    else r = rename(from, to);
    result(r, r < 0);
}

static void do_link(void)
{
    say("link");
    close_all();
    const char *from = spelled(name()), *to = spelled(name());
    int r = link(from, to);
    result(r, r < 0);
}

static void do_symlink(void)
{
    char target[PATH_MAX] = "";
    static const char *const targets[] = { "c0", "n0", "sub/c0", "state", "nowhere" };
    int r;
    if (pick(2)) {
        say("readlink");
        r = readlink(spelled(name()), target, sizeof target - 1);
        if (r > 0) say(" %s", target);
    } else {
        say("symlink");
        const char *to = targets[pick(5)];
        say(" %s", to);
        r = symlink(to, spelled(pick(4) ? "link" : "n1"));
    }
    result(r, r < 0);
}

static void do_mkdir(void)
{
    say("mkdir");
    const char *path = spelled(pick(5) ? directory() : "n0");
    int r = pick(3) ? mkdir(path, 0755) : rmdir(path);
    result(r, r < 0);
}

static void do_change(void)
{
    struct timespec times[2] = { { 1000000000, 0 }, { 1000000000 + pick(1000), 0 } };
    static const mode_t modes[] = { 0644, 0600, 0755 };
    say("change");
    const char *path = spelled(name());
    int r, what = pick(4);
    say(" %d", what);
    switch (what) {
    case 0: r = truncate(path, pick(700)); break;
    case 1: r = chmod(path, modes[pick(3)]); break;
    case 2: r = utimensat(AT_FDCWD, path, times, 0); break;
    default: r = chown(path, geteuid(), getegid());
    }
    result(r, r < 0);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_sorted(char **names, int count)
{
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        say(" %s", names[i]);
        free(names[i]);
    }
}

static char *visited[256];
static int visits;

static int visit(const char *path, const struct stat *s, int what, struct FTW *where)
{
    char text[PATH_MAX + 64];
    snprintf(text, sizeof text, "%s:%d:%d:%ld", path + where->base, what, where->level,
             S_ISREG(s->st_mode) ? (long)s->st_size : 0);
    if (visits < 256) visited[visits++] = strdup(text);
    return 0;
}

static void do_list(void)
{
    say("list");
    const char *plain = directory(), *path = spelled(plain);
    int what = pick(4), count = 0;
    char *names[256];
    say(" %d", what);
    if (what == 0) {
        struct dirent **entries;
        count = scandir(path, &entries, NULL, alphasort);
        for (int i = 0; i < count; i++) say(" %s", entries[i]->d_name), free(entries[i]);
        if (count >= 0) free(entries);
        result(count, count < 0);
    } else if (what == 1) {
        char pattern[2 * PATH_MAX];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s", path, pick(2) ? "c*" : "*");
        int r = glob(pattern, 0, NULL, &found);
        for (size_t i = 0; r == 0 && i < found.gl_pathc; i++)
            say(" %s", strrchr(found.gl_pathv[i], '/') + 1);
        if (r == 0) globfree(&found);
        say(" = %d\n", r);
    } else if (what == 2) {
        visits = 0;
        int r = nftw(path, visit, 8, (pick(2) ? FTW_PHYS : 0) | (pick(2) ? FTW_DEPTH : 0));
        print_sorted(visited, visits);
        result(r, r < 0);
    } else {
        DIR *dir = opendir(path);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)) && count < 256) {
            int type = entry->d_type;
            if (asprintf(&names[count++], "%s:%d", entry->d_name, type) < 0) abort();
        }
        int code = errno;
        if (dir) closedir(dir);
        print_sorted(names, count);
        errno = code;
        result(count, !dir);
    }
}

static void do_real_path(void)
{
    char text[PATH_MAX];
    say("realpath");
    char *found = realpath(spelled(pick(4) ? name() : directory()), text);
    if (found && !strncmp(found, top, strlen(top))) say(" %s", found + strlen(top));
    result(found ? 0 : -1, !found);
}

static void do_move(void)
{
    char cwd[PATH_MAX];
    say("chdir");
    int r = getcwd(cwd, sizeof cwd) && !strcmp(cwd, home) ? chdir("sub") : chdir(home);
    result(r, r < 0);
}

static void do_map(void)
{
    say("map");
    int s = slot();
    struct stat st;
    if (fds[s] < 0 || fstat(fds[s], &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
        say(" none\n");
        return;
    }
    int writes = pick(2);
    char *map = mmap(NULL, st.st_size, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED,
                     fds[s], 0);
    if (map == MAP_FAILED) { result(-1, 1); return; }
    if (writes) map[pick(st.st_size)] = 'M';
    say(" %08x", hash(map, st.st_size));
    if (pick(2)) {
        close(fds[s]);
        fds[s] = -1;
        if (writes) map[0] = 'C';
    }
    result(munmap(map, st.st_size), 0);
}

static void do_transfer(void)
{
    say("transfer");
    int from = slot(), to = slot();
    ssize_t n = pick(2) ? sendfile(fds[to], fds[from], NULL, pick(400))
                        : copy_file_range(fds[from], NULL, fds[to], NULL, pick(400), 0);
    result(n, n < 0);
}

static void do_agree(void)
{
    int times = 1 + pick(4);
    say("barrier\n");
    for (int i = 0; i < times; i++) MPI_Barrier(MPI_COMM_WORLD);
}

static const struct { void (*run)(void); int weight; } operations[] = {
    { do_open, 20 }, { do_creat, 3 }, { do_write, 16 }, { do_read, 10 }, { do_position, 8 },
    { do_close, 14 }, { do_copy_descriptor, 5 }, { do_fopen, 10 }, { do_fdopen, 3 },
    { do_stream, 14 }, { do_fclose, 6 }, { do_stat, 10 }, { do_access, 4 }, { do_remove, 6 },
    { do_rename, 8 }, { do_link, 3 }, { do_symlink, 3 }, { do_mkdir, 4 }, { do_change, 5 },
    { do_list, 5 }, { do_real_path, 2 }, { do_move, 3 }, { do_map, 3 }, { do_transfer, 3 },
    { do_agree, 10 },
};

/* Everything that the program sees below `path`, with contents. */
static void show(const char *path, int depth)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char *names[256];
    int count = 0;
    while (dir && (entry = readdir(dir)) && count < 256)
        if (entry->d_name[0] != '.') names[count++] = strdup(entry->d_name);
    if (dir) closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        char whole[2 * PATH_MAX];
        static char data[1 << 16];
        struct stat st;
        snprintf(whole, sizeof whole, "%s/%s", path, names[i]);
        int r = lstat(whole, &st);
        say("%*s%s", depth + 1, "", names[i]);
        if (r != 0) say(" %s\n", strerrorname_np(errno));
        else if (S_ISDIR(st.st_mode)) { say("/\n"); show(whole, depth + 1); }
        else if (S_ISREG(st.st_mode)) {
            int fd = open(whole, O_RDONLY);
            ssize_t n = read(fd, data, sizeof data);
            close(fd);
            told(&st);
            say(" %08x\n", n < 0 ? 0 : hash(data, n));
        } else say(" %o\n", st.st_mode);
        free(names[i]);
    }
}

static void sequence(int number, int length)
{
    unsigned total = 0;
    state = 0x1234567u + 7919u * (uint64_t)number;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        total += operations[i].weight;
    snprintf(home, sizeof home, "%.*s/q%d", PATH_MAX - 32, top, number);
    for (int i = 0; i < FDS; i++) fds[i] = -1;
    say("== %d\n", number);
    if (mkdir(home, 0755) || chdir(home) || mkdir("sub", 0755)) abort();
    if (pick(2) && (mkdir("deep", 0755) || mkdir("deep/er", 0755))) abort();
    for (step = 0; step < length; step++) {
        unsigned at = pick(total), i = 0;
        while (at >= (unsigned)operations[i].weight) at -= operations[i++].weight;
        say("%d ", step);
        operations[i].run();
    }
    close_all();
    if (chdir(top)) abort();
    say("-- seen\n");
    show(home, 0);
    do_agree();
    say("-- seen again\n");
    show(home, 0);
}

int main(int argc, char **argv)
{
    if (argc != 4 || !getcwd(top, sizeof top)) return 2;
    umask(022);
    out = stdout;
    MPI_Init(&argc, &argv);
    int first = atoi(argv[1]), count = atoi(argv[2]);
    for (int i = 0; i < count; i++) sequence(first + i, atoi(argv[3]));
    fflush(out);
    MPI_Finalize();
    return 0;
}
