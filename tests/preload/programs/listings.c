/* readdir, scandir and glob show cached names once and do not show hidden ones. The directory holds
 * "there", "hidden" and "plain"; the engine adds c_one, c_two and there, and hides hidden. */
#include "check.h"

static int same(const char *got, const char *want)
{
    if (strcmp(got, want)) fprintf(stderr, "got \"%s\", want \"%s\"\n", got, want);
    return strcmp(got, want) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The stream's names, sorted. */
static const char *names(DIR *d)
{
    static char text[1000];
    char *all[20];
    int count = 0;
    struct dirent *e;
    errno = 7;
    while ((e = readdir(d)))
        if (e->d_name[0] != '.') all[count++] = strdup(e->d_name);
    CHECK(errno == 7);
    qsort(all, count, sizeof *all, by_name);
    *text = 0;
    for (int i = 0; i < count; i++) strcat(strcat(text, all[i]), " ");
    return text;
}

static int not_dots(const struct dirent *e) { return e->d_name[0] != '.'; }

int main(int argc, char **argv)
{
    static const char *want = "c_one c_two plain there ";
    struct dirent **list;
    glob_t g;
    CHECK(MPI_Init(&argc, &argv) == 0);
    DIR *d = opendir("listed");
    CHECK(d && same(names(d), want) && !readdir(d));
    rewinddir(d);
    CHECK(same(names(d), want));
    rewinddir(d);
    long at = 0;
    struct dirent *e;
    while ((e = readdir(d)) && strcmp(e->d_name, "c_two")) at = telldir(d);
    CHECK(e);
    seekdir(d, at);
    CHECK((e = readdir(d)) && same(e->d_name, "c_two") && e->d_type == DT_REG && e->d_ino);
    CHECK(closedir(d) == 0);
    d = fdopendir(open("listed", O_RDONLY | O_DIRECTORY));
    CHECK(d && same(names(d), want) && closedir(d) == 0);
    d = opendir("other");
    CHECK(d && same(names(d), "") && closedir(d) == 0 && !opendir("none") && errno == ENOENT);
    int n = scandir("listed", &list, not_dots, alphasort);
    CHECK(n == 4 && same(list[0]->d_name, "c_one") && same(list[3]->d_name, "there"));
    while (n--) free(list[n]);
    free(list);
    CHECK(glob("listed/[ch]*", 0, NULL, &g) == 0 && g.gl_pathc == 2);
    CHECK(same(g.gl_pathv[0], "listed/c_one") && same(g.gl_pathv[1], "listed/c_two"));
    globfree(&g);
    return 0;
}
