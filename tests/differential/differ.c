/* Random sequences of file operations. Prints what each call returned, errno and content, so that
 * a run under the shim can be compared with one without it, line by line.
 *
 * usage: differ FIRST COUNT LENGTH; runs sequences FIRST .. FIRST+COUNT-1, each in a directory
 * qN of its own, with names that match patterns (c*, state*) and names that do not (n*). */
#include "differ.h"
#include "names.h"
#include "wide.h"
#include "more.h"

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
    /* From here on only from WIDE on. */
    { do_at, 14 }, { do_nameless, 3 }, { do_open_anew, 6 }, { do_reopen, 3 }, { do_vector, 6 },
    { do_range, 5 }, { do_lock, 4 }, { do_positions, 4 },
    { do_rename_new, 4 }, { do_hole, 3 }, { do_close_range, 3 }, { do_statfs, 3 },
    /* And these from FURTHER on. */
    { do_attribute, 16 }, { do_times, 6 }, { do_descriptor_name, 5 }, { do_start, 4 },
};
enum { USUAL = 25, MORE = 4 };

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

static void sequence(int length)
{
    unsigned total = 0;
    char link_name[PATH_MAX];
    size_t all = sizeof operations / sizeof *operations;
    size_t count = number < WIDE ? USUAL : number < FURTHER ? all - MORE : all;
    state = 0x1234567u + 7919u * (uint64_t)number;
    for (size_t i = 0; i < count; i++)
        total += operations[i].weight;
    snprintf(home, sizeof home, "%.*s/q%d", PATH_MAX - 32, top, number);
    for (int i = 0; i < FDS; i++) fds[i] = -1;
    say("== %d\n", number);
    snprintf(link_name, sizeof link_name, "%.*s/by%d", PATH_MAX - 32, top, number);
    if (number >= WIDE && symlink(strrchr(home, '/') + 1, link_name)) abort();
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
    for (int i = 0; i < count; i++) {
        number = first + i;
        sequence(atoi(argv[3]));
    }
    fflush(out);
    MPI_Finalize();
    return 0;
}
