/* What only sequences from WIDE on do, so that the numbers of the others keep their meaning: names
 * relative to a descriptor, descriptors opened anew, vectors, locks, ranges, positions in
 * directories. See differ.c. */

/* A directory's descriptor for names relative to it; the caller closes it. */
static int base(void)
{
    return open(home, (pick(2) ? O_RDONLY : O_PATH) | O_DIRECTORY);
}

static void do_at(void)
{
    struct stat st;
    say("at");
    int dir = base(), what = pick(8), r = 0;
    const char *plain = pick(4) ? name() : directory(), *other = name();
    say(" %d %s %s", what, plain, other);
    switch (what) {
    case 0:
        r = fstatat(dir, plain, &st, pick(2) ? AT_SYMLINK_NOFOLLOW : 0);
        if (r == 0) told(&st);
        break;
    case 1: r = unlinkat(dir, plain, pick(3) ? 0 : AT_REMOVEDIR); break;
    case 2: r = faccessat(dir, plain, R_OK, 0); break;
    case 3: r = mkdirat(dir, plain, 0755); break;
    case 4: close_all(); r = renameat(dir, name(), AT_FDCWD, spelled(other)); break;
    case 5: close_all(); r = linkat(dir, plain, dir, other, 0); break;
    case 6: r = fchmodat(dir, plain, 0644, 0); break;
    default: {
        int fd = open(plain, O_PATH);
        r = fd < 0 ? -1 : fstat(fd, &st);
        if (r == 0) told(&st);
        if (fd >= 0) close(fd);
    }
    }
    int code = errno;
    close(dir);
    errno = code;
    result(r, r < 0);
}

/* A file without a name gets one. */
static void do_nameless(void)
{
    char link_name[64];
    say("nameless");
    int fd = open(home, O_TMPFILE | O_RDWR, 0644);
    if (fd < 0 || write(fd, "nameless", 8) != 8) abort();
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", fd);
    int r = linkat(AT_FDCWD, link_name, AT_FDCWD, spelled(name()), AT_SYMLINK_FOLLOW);
    int code = errno;
    close(fd);
    errno = code;
    result(r, r < 0);
}

static void do_open_anew(void)
{
    static const int flags[] = { O_RDONLY, O_RDWR, O_WRONLY, O_WRONLY | O_TRUNC };
    char path[64];
    say("anew");
    int from = slot(), to = slot(), how = pick(4);
    say(" %d", how);
    if (fds[from] < 0) { say(" none\n"); return; }
    snprintf(path, sizeof path, pick(2) ? "/proc/self/fd/%d" : "/dev/fd/%d", fds[from]);
    keep(to, open(path, flags[how]));
}

static void do_reopen(void)
{
    static const char *const modes[] = { "r", "r+", "w", "a" };
    say("reopen");
    int s = stream_slot(), how = pick(4);
    say(" %s", modes[how]);
    if (!streams[s]) { say(" none\n"); return; }
    FILE *f = freopen(NULL, modes[how], streams[s]);
    streams[s] = f;
    result(f ? 0 : -1, !f);
}

static void do_vector(void)
{
    char one[300], two[300];
    say("vector");
    int s = slot(), what = pick(4), at = pick(700);
    struct iovec parts[2] = { { one, pick(sizeof one) }, { two, pick(sizeof two) } };
    for (size_t i = 0; i < sizeof one; i++) one[i] = 'a' + pick(26), two[i] = 'A' + pick(26);
    say(" %d", what);
    ssize_t n = what == 0   ? readv(fds[s], parts, 2)
                : what == 1 ? preadv(fds[s], parts, 2, at)
                : what == 2 ? writev(fds[s], parts, 2)
                : pick(2)   ? pwritev(fds[s], parts, 2, at)
                            : pwritev2(fds[s], parts, 2, pick(2) ? -1 : at, 0);
    if (n > 0) say(" %08x %08x", hash(one, parts[0].iov_len), hash(two, parts[1].iov_len));
    result(n, n < 0);
}

static void do_range(void)
{
    say("range");
    int from = slot(), to = slot();
    off64_t in = pick(300), out_at = pick(300);
    ssize_t n = from == to ? 0
                           : copy_file_range(fds[from], pick(2) ? &in : NULL, fds[to],
                                             pick(2) ? &out_at : NULL, 1 + pick(300), 0);
    say(" %ld %ld", (long)in, (long)out_at);
    result(n, n < 0);
}

static void do_lock(void)
{
    struct flock lock = { .l_type = pick(3) ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };
    say("lock");
    int s = slot(), r;
    switch (pick(3)) {
    case 0: r = fcntl(fds[s], F_SETLK, &lock); break;
    case 1: r = flock(fds[s], (pick(2) ? LOCK_SH : LOCK_UN) | LOCK_NB); break;
    default: r = posix_fallocate(fds[s], pick(300), 1 + pick(300)); break;
    }
    result(r, r < 0);
}

/* Goes back in a directory and reads the same names again. */
static void do_positions(void)
{
    say("positions");
    DIR *dir = opendir(spelled(directory()));
    int before = 1 + pick(3), count = 0, same = 1;
    char *names[256];
    if (!dir) { result(-1, 1); return; }
    for (int i = 0; i < before; i++)
        if (!readdir(dir)) break;
    long at = telldir(dir);
    struct dirent *entry;
    while ((entry = readdir(dir)) && count < 256) names[count++] = strdup(entry->d_name);
    seekdir(dir, at);
    for (int i = 0; i < count; i++) {
        entry = readdir(dir);
        same &= entry && !strcmp(entry->d_name, names[i]);
        free(names[i]);
    }
    same &= !readdir(dir);
    rewinddir(dir);
    int all = 0;
    while (readdir(dir)) all++;
    closedir(dir);
    say(" same %d, %d of %d\n", same, count, all);
}

/* A name is not to be replaced. (Two cached files cannot change places: EINVAL, as on some file
 * systems.) */
static void do_rename_new(void)
{
    say("rename_new");
    close_all();
    slashes = 0;
    const char *from = spelled(name());
    int r = renameat2(AT_FDCWD, from, AT_FDCWD, spelled(name()), RENAME_NOREPLACE);
    slashes = 1;
    result(r, r < 0);
}

static void do_hole(void)
{
    static const int modes[] = { 0, FALLOC_FL_KEEP_SIZE,
                                 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE };
    say("hole");
    int s = slot(), how = pick(3);
    say(" %d", how);
    int r = fallocate(fds[s], modes[how], pick(300), 1 + pick(300));
    result(r, r < 0);
}

static void do_close_range(void)
{
    say("close_range");
    int s = slot(), r = 0;
    if (fds[s] >= 0) r = close_range(fds[s], fds[s], 0);
    fds[s] = -1;
    result(r, r < 0);
}

/* Which file system it is, the shim may change. */
static void do_statfs(void)
{
    struct statfs fs;
    struct statvfs vfs;
    say("statfs");
    int s = slot(), what = pick(4);
    const char *path = spelled(pick(4) ? name() : directory());
    say(" %d", what);
    int r = what == 0   ? statfs(path, &fs)
            : what == 1 ? statvfs(path, &vfs)
            : what == 2 ? fstatfs(fds[s], &fs)
                        : fstatvfs(fds[s], &vfs);
    result(r, r < 0);
}
