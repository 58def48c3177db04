/* Operations on names. See differ.c. */
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
    slashes = 0;
    const char *from = spelled(dirs ? directory() : name());
    const char *to = spelled(dirs && pick(4) ? directory() : name());
    int what = pick(6), r;
    slashes = 1;
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
    slashes = 0;
    const char *from = spelled(name()), *to = spelled(name());
    slashes = 1;
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

