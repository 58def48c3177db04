/* What only sequences from FURTHER on do: extended attributes, times to the nanosecond, the name
 * behind a descriptor, programs that are started on it. See differ.c. */
#include <spawn.h>
#include <sys/wait.h>
#include <sys/xattr.h>

static const char *attribute(void)
{
    static const char *const all[] = { "user.a", "user.b", "user.longer" };
    return all[pick(3)];
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the program's own attributes, in order. */
static void told_list(char *list, ssize_t bytes)
{
    char *names[64];
    int count = 0;
    for (char *at = list; at < list + bytes && count < 64; at += strlen(at) + 1)
        if (!strncmp(at, "user.", 5)) names[count++] = at;
    qsort(names, count, sizeof *names, by_text);
    for (int i = 0; i < count; i++) say(" %s", names[i]);
}

static void do_attribute(void)
{
    char value[100] = "", list[1000];
    say("attribute");
    int how = pick(12), s = slot(), flags = pick(4) ? 0 : pick(2) ? XATTR_CREATE : XATTR_REPLACE;
    const char *path = spelled(pick(5) ? name() : directory()), *what = attribute();
    size_t bytes = pick(sizeof value);
    ssize_t r = -1;
    for (size_t i = 0; i < bytes; i++) value[i] = 'a' + pick(26);
    say(" %d %s", how, what);
    switch (how) {
    case 0: case 1: r = setxattr(path, what, value, bytes, flags); break;
    case 2: r = lsetxattr(path, what, value, bytes, flags); break;
    case 3: case 4: r = fsetxattr(fds[s], what, value, bytes, flags); break;
    case 5: r = getxattr(path, what, value, sizeof value); break;
    case 6: r = lgetxattr(path, what, value, sizeof value); break;
    case 7: r = fgetxattr(fds[s], what, value, sizeof value); break;
    case 8: r = listxattr(path, list, sizeof list); break;
    case 9: r = pick(2) ? llistxattr(path, list, sizeof list)
                        : flistxattr(fds[s], list, sizeof list); break;
    case 10: r = pick(2) ? removexattr(path, what) : lremovexattr(path, what); break;
    default: r = fremovexattr(fds[s], what);
    }
    if (r > 0 && how >= 5 && how <= 7) say(" %08x", hash(value, r));
    if (r > 0 && (how == 8 || how == 9)) told_list(list, r), r = 0;
    result(r, r < 0);
}

static void do_times(void)
{
    struct timespec times[2];
    struct stat st;
    say("times");
    int how = pick(3), s = slot(), r;
    const char *path = spelled(name());
    for (int i = 0; i < 2; i++)
        times[i] = (struct timespec){ 1000000000 + pick(1000), pick(4) ? pick(999999999) : 0 };
    say(" %d", how);
    if (how == 0) r = utimensat(AT_FDCWD, path, times, 0);
    else if (how == 1) r = utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
    else r = futimens(fds[s], times);
    int code = errno;
    if (r == 0 && (how == 2 ? fstat(fds[s], &st) : how ? lstat(path, &st) : stat(path, &st)) == 0)
        say(" %ld.%09ld %ld.%09ld", (long)st.st_atim.tv_sec, st.st_atim.tv_nsec,
            (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    errno = code;
    result(r, r < 0);
}

/* Of a file that has the name still that it was opened by. */
static void do_descriptor_name(void)
{
    char link_name[64], found[PATH_MAX] = "";
    static const int flags[] = { O_RDONLY, O_RDWR, O_WRONLY };
    say("name");
    int how = pick(2), fd = open(spelled(name()), flags[pick(3)]);
    say(" %d", how);
    if (fd < 0) { result(-1, 1); return; }
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", fd);
    long r = how ? readlink(link_name, found, sizeof found - 1)
                 : (long)strlen(realpath(link_name, found) ? found : "");
    close(fd);
    if (!strncmp(found, top, strlen(top))) say(" %s", found + strlen(top));
    result(r > 0 ? 0 : -1, 0);
}

/* A program reads the file; what it is started by opens it, or a shell does. */
static void do_start(void)
{
    char *arguments[] = { "cksum", NULL };
    char command[2 * PATH_MAX], found[200] = "";
    extern char **environ;
    int status = -1, ends[2], how = pick(3), r = 0;
    pid_t child = -1;
    say("start");
    slashes = 0;
    const char *path = spelled(name());
    slashes = 1;
    say(" %d", how);
    if (pipe(ends)) abort();
    snprintf(command, sizeof command, "cksum < '%s'", path);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, path, O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    if (how == 0) {
        r = posix_spawnp(&child, "cksum", &actions, NULL, arguments, environ);
    } else if ((child = fork()) == 0) {
        dup2(ends[1], 1);
        dup2(open("/dev/null", O_WRONLY), 2);
        if (how == 1) execle("/bin/sh", "sh", "-c", command, NULL, environ);
        execlp("sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (r == 0) {
        ssize_t n = read(ends[0], found, sizeof found - 1);
        if (n > 0) say(" %.*s", (int)n - 1, found);
        if (waitpid(child, &status, 0) != child) abort();
    }
    close(ends[0]);
    say(" status %d", status);
    errno = r;
    result(r, r != 0);
}
