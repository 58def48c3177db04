/* Every name of every family leads into the cache, and errno is right. */
#include "check.h"

static void opens(void)
{
    static const char *three[] = { "open", "open64", "__open", "__open64" };
    static const char *two[] = { "__open_2", "__open64_2" };
    static const char *at[] = { "openat", "openat64" };
    static const char *at_two[] = { "__openat_2", "__openat64_2" };
    static const char *creats[] = { "creat", "creat64" };
    static const char *streams[] = { "fopen", "fopen64", "_IO_fopen" };
    char name[64];
    struct stat s;
    umask(0);
    for (size_t i = 0; i < sizeof three / sizeof *three; i++) {
        snprintf(name, sizeof name, "c_%s", three[i]);
        int (*f)(const char *, int, ...) = symbol(three[i]);
        int fd = f(name, O_CREAT | O_WRONLY, 0640);
        CHECK(fd >= 0 && fstat(fd, &s) == 0 && (s.st_mode & 0777) == 0640 && close(fd) == 0);
        CHECK(in_cache(name) && !in_prefix(name));
        CHECK(f("c_none", O_RDONLY) == -1 && errno == ENOENT);
        CHECK(f("f_fails", O_RDONLY) == -1 && errno == EDOM);
    }
    for (size_t i = 0; i < 2; i++) {
        int (*f)(const char *, int) = symbol(two[i]);
        int fd = f("c_open", O_RDONLY);
        CHECK(fd >= 0 && close(fd) == 0);
        int (*g)(int, const char *, int, ...) = symbol(at[i]);
        snprintf(name, sizeof name, "c_%s", at[i]);
        fd = g(AT_FDCWD, name, O_CREAT | O_WRONLY, 0640);
        CHECK(fd >= 0 && close(fd) == 0 && in_cache(name) && !in_prefix(name));
        int dir = open("sub", O_RDONLY | O_DIRECTORY);
        CHECK(dir >= 0);
        fd = g(dir, "c_at", O_CREAT | O_RDWR, 0640);
        CHECK(fd >= 0 && close(fd) == 0 && in_cache("sub+c_at") && !in_prefix("sub/c_at"));
        int (*h)(int, const char *, int) = symbol(at_two[i]);
        fd = h(dir, "c_at", O_RDONLY);
        CHECK(fd >= 0 && close(fd) == 0 && close(dir) == 0);
        int (*c)(const char *, mode_t) = symbol(creats[i]);
        snprintf(name, sizeof name, "c_%s", creats[i]);
        fd = c(name, 0600);
        CHECK(fd >= 0 && close(fd) == 0 && in_cache(name) && !in_prefix(name));
    }
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "c_%s", streams[i]);
        FILE *(*f)(const char *, const char *) = symbol(streams[i]);
        FILE *stream = f(name, "w+e");
        CHECK(stream && fputs("text", stream) >= 0 && fclose(stream) == 0);
        CHECK(in_cache(name) && !in_prefix(name));
        CHECK(!f("c_none", "r") && errno == ENOENT);
        CHECK(!f(name, "wx") && errno == EEXIST);
    }
    FILE *again = freopen("c_again", "w", fopen("plain", "w"));
    CHECK(again && fclose(again) == 0 && in_cache("c_again") && in_prefix("plain"));
    again = freopen("plain2", "w", fopen("c_gone", "w"));
    CHECK(again && fclose(again) == 0 && in_cache("c_gone") && in_prefix("plain2"));
}

static void spellings(void)
{
    char absolute[4096];
    CHECK(chdir("sub") == 0);
    CHECK(access("../c_open", F_OK) == 0 && access("./..//c_open", F_OK) == 0);
    CHECK(access("c_open", F_OK) == -1 && errno == ENOENT);
    CHECK(chdir("..") == 0 && access("c_open", F_OK) == 0);
    int dir = open("sub", O_RDONLY | O_DIRECTORY);
    CHECK(fchdir(dir) == 0 && access("../c_open", F_OK) == 0 && access("c_at", F_OK) == 0);
    CHECK(chdir("..") == 0 && close(dir) == 0);
    snprintf(absolute, sizeof absolute, "%s/c_open", getenv("FAKE_PREFIX"));
    CHECK(access(absolute, F_OK) == 0);
    /* A symlinked directory, and a symlink to a cached file. */
    CHECK(symlink("sub", "alias") == 0 && access("alias/c_at", F_OK) == 0);
    CHECK(access("alias/../c_open", F_OK) == 0);
    CHECK(symlink("c_open", "latest") == 0 && in_prefix("latest") == 0);
    CHECK(access("latest", F_OK) == 0);
    struct stat by_link, by_name;
    CHECK(stat("latest", &by_link) == 0 && stat("c_open", &by_name) == 0);
    CHECK(by_link.st_ino == by_name.st_ino && lstat("latest", &by_link) == 0);
    CHECK(S_ISLNK(by_link.st_mode));
    int fd = open("latest", O_RDONLY);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(open("latest", O_RDONLY | O_NOFOLLOW) == -1 && errno == ELOOP);
    CHECK(unlink("latest") == 0 && access("c_open", F_OK) == 0);
    /* A plain file that becomes a symlink, by a new name and by a rename. */
    CHECK((fd = open("pointer", O_CREAT | O_RDWR, 0644)) >= 0 && close(fd) == 0);
    CHECK(access("pointer", F_OK) == 0 && unlink("pointer") == 0);
    CHECK(symlink("c_open", "pointer.new") == 0 && access("pointer.new", F_OK) == 0);
    CHECK((fd = open("pointer", O_CREAT | O_RDWR, 0644)) >= 0 && close(fd) == 0);
    CHECK(access("pointer", F_OK) == 0 && rename("pointer.new", "pointer") == 0);
    CHECK(access("pointer", F_OK) == 0 && unlink("pointer") == 0);
}

static void questions(void)
{
    struct stat a, b;
    struct statx x;
    struct statfs f, cache;
    struct statvfs v;
    char text[4096], *path;
    int fd = open("c_open", O_RDWR);
    CHECK(write(fd, "12345", 5) == 5 && fstat(fd, &a) == 0 && close(fd) == 0);
    static const char *stats[] = { "stat", "stat64", "lstat", "lstat64" };
    for (int i = 0; i < 4; i++) {
        int (*call)(const char *, struct stat *) = symbol(stats[i]);
        CHECK(call("c_open", &b) == 0 && b.st_ino == a.st_ino && b.st_dev == a.st_dev);
        CHECK(b.st_size == 5 && call("c_none", &b) == -1 && errno == ENOENT);
        CHECK(call("g_elsewhere", &b) == 0 && b.st_size == 4242 && S_ISREG(b.st_mode));
        CHECK(b.st_mtime == 1000000000 && b.st_blocks == 9);
    }
    static const char *old[] = { "__xstat", "__xstat64", "__lxstat", "__lxstat64" };
    for (int i = 0; i < 4; i++) {
        int (*call)(int, const char *, struct stat *) = symbol(old[i]);
        CHECK(call(1, "c_open", &b) == 0 && b.st_ino == a.st_ino);
    }
    int (*old_at)(int, int, const char *, struct stat *, int) = symbol("__fxstatat");
    CHECK(old_at(1, AT_FDCWD, "c_open", &b, 0) == 0 && b.st_ino == a.st_ino);
    CHECK(fstatat(AT_FDCWD, "c_open", &b, 0) == 0 && b.st_ino == a.st_ino);
    CHECK(statx(AT_FDCWD, "c_open", 0, STATX_BASIC_STATS, &x) == 0 && x.stx_ino == a.st_ino);
    CHECK(statx(AT_FDCWD, "g_elsewhere", 0, STATX_SIZE, &x) == 0 && x.stx_size == 4242);
    CHECK(access("c_open", R_OK) == 0 && access("g_elsewhere", R_OK) == 0);
    CHECK(access("g_elsewhere", X_OK) == -1 && errno == EACCES);
    CHECK(access("f_fails", R_OK) == -1 && errno == EDOM);
    CHECK(faccessat(AT_FDCWD, "c_open", R_OK, 0) == 0 && euidaccess("c_open", R_OK) == 0);
    CHECK(eaccess("c_open", R_OK) == 0);
    CHECK(readlink("c_open", text, sizeof text) == -1 && errno == EINVAL);
    snprintf(text, sizeof text, "%s/c_open", getenv("FAKE_PREFIX"));
    CHECK((path = realpath("sub/../c_open", NULL)) && strcmp(path, text) == 0);
    free(path);
    CHECK((path = canonicalize_file_name("c_open")) && strcmp(path, text) == 0);
    free(path);
    CHECK(realpath("c_open", text) == text && !realpath("c_none2/x", text));
    CHECK(statfs("c_open", &f) == 0 && statfs(getenv("FAKE_CACHE"), &cache) == 0);
    CHECK(f.f_type == cache.f_type && statvfs("g_elsewhere", &v) == 0);
}

static void changes(void)
{
    struct stat s;
    struct timeval now[2] = { { 1000, 0 }, { 2000, 0 } };
    struct timespec then[2] = { { 3000, 0 }, { 4000, 0 } };
    struct utimbuf times = { 5, 6 };
    CHECK(truncate("c_open", 3) == 0 && stat("c_open", &s) == 0 && s.st_size == 3);
    CHECK(chmod("c_open", 0604) == 0 && stat("c_open", &s) == 0 && (s.st_mode & 0777) == 0604);
    CHECK(fchmodat(AT_FDCWD, "c_open", 0640, 0) == 0 && chown("c_open", -1, -1) == 0);
    CHECK(lchown("c_open", -1, -1) == 0 && fchownat(AT_FDCWD, "c_open", -1, -1, 0) == 0);
    CHECK(utimes("c_open", now) == 0 && stat("c_open", &s) == 0 && s.st_mtime == 2000);
    CHECK(utimensat(AT_FDCWD, "c_open", then, 0) == 0 && stat("c_open", &s) == 0);
    CHECK(s.st_mtime == 4000 && utime("c_open", &times) == 0 && stat("c_open", &s) == 0);
    CHECK(s.st_mtime == 6 && truncate("f_fails", 1) == -1 && errno == EDOM);
    CHECK(rename("c_open", "c_moved") == 0 && in_cache("c_moved") && !in_cache("c_open"));
    CHECK(renameat(AT_FDCWD, "c_moved", AT_FDCWD, "sub/c_deep") == 0 && in_cache("sub+c_deep"));
    CHECK(renameat2(AT_FDCWD, "sub/c_deep", AT_FDCWD, "c_moved", RENAME_NOREPLACE) == 0);
    CHECK(renameat2(AT_FDCWD, "c_moved", AT_FDCWD, "c_open64", RENAME_NOREPLACE) == -1);
    CHECK(errno == EEXIST && renameat2(AT_FDCWD, "c_moved", AT_FDCWD, "c_open64", 2) == -1);
    CHECK(errno == EINVAL && link("c_moved", "c_linked") == 0 && in_cache("c_linked"));
    CHECK(linkat(AT_FDCWD, "c_moved", AT_FDCWD, "c_again2", 0) == 0 && in_cache("c_again2"));
    CHECK(unlink("c_moved") == 0 && !in_cache("c_moved"));
    CHECK(unlinkat(AT_FDCWD, "c_linked", 0) == 0 && !in_cache("c_linked"));
    CHECK(remove("c_again2") == 0 && !in_cache("c_again2"));
    CHECK(unlink("c_moved") == -1 && errno == ENOENT);
    CHECK(mkdir("made", 0755) == 0 && in_prefix("made") && mkdir("made", 0755) == -1);
    CHECK(errno == EEXIST && mkdirat(AT_FDCWD, "made/f_full", 0755) == 0);
    CHECK(rmdir("made/f_full") == -1 && errno == ENOTEMPTY);
    CHECK(unlinkat(AT_FDCWD, "made/f_full", AT_REMOVEDIR) == -1 && errno == ENOTEMPTY);
    CHECK(mkdir("made2", 0755) == 0 && remove("made2") == 0 && !in_prefix("made2"));
    char template[] = "c_tempXXXXXX";
    int fd = mkstemp(template);
    CHECK(fd >= 0 && in_prefix(template) && close(fd) == 0);
}

int main(int argc, char **argv)
{
    CHECK(mkdir("sub", 0755) == 0);
    /* Before MPI_Init nothing is routed. */
    int fd = open("c_early", O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0 && close(fd) == 0 && in_prefix("c_early"));
    CHECK(MPI_Init(&argc, &argv) == 0);
    opens();
    spellings();
    questions();
    changes();
    CHECK(MPI_Finalize() == 0);
    return 0;
}
