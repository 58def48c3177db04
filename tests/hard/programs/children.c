/* What processes that rank 0 starts find of checkpoint files (`read`), and what rank 0 finds after
 * they have changed some (`change`, `lent`) or written all (`keep`): right after the close, when
 * the checkpoint is complete and long after. Every line is the same with and without the shim. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#include "sim.h"

extern char **environ;
/* As programs have it that copy it at their start. */
static char *before[1000];

static void copy_environment(void) {
  for (int i = 0; environ[i] && i < 999; i++) before[i] = environ[i];
}

static void say(const char *what, long found) {
  printf("%s: %ld\n", what, found);
  fflush(stdout);
}

/* Runs the command with F the file, O that of the other rank, D the directory. */
static void shell(const char *command, const char *file, const char *other, const char *dir) {
  char whole[2048];
  snprintf(whole, sizeof whole, "F=%s O=%s D=%s; %s", file, other, dir, command);
  printf("$ %s\n", whole);
  fflush(stdout);
  int status = system(whole);
  say("status", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static long sum_of(FILE *from) {
  uint64_t sum = 0;
  int c;
  while (from && (c = getc(from)) != EOF) sum = sum * 31 + (uint64_t)c;
  return (long)(sum & 0xffffff);
}

static long read_it(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) return -errno;
  long sum = sum_of(file);
  fclose(file);
  return sum;
}

static long list(const char *path) {
  long names = 0, sum = 0;
  DIR *dir = opendir(path);
  if (!dir) return -errno;
  for (struct dirent *entry; (entry = readdir(dir)); names++)
    for (const char *at = entry->d_name; *at; at++) sum += *at;
  closedir(dir);
  return names * 100000 + sum;
}

static void look(const char *path) {
  struct stat found;
  int there = stat(path, &found) == 0;
  say("size", there ? (long)found.st_size : -errno);
  if (there) say("mode", found.st_mode & 07777);
  say("content", read_it(path));
}

static void forked(const char *path, const char *dir) {
  int ends[2], status;
  long found[4] = {0};
  if (pipe(ends) != 0) sim_fail("pipe", path);
  pid_t child = fork();
  if (child == 0) {
    struct stat st;
    long mine[4] = {stat(path, &st) == 0 ? (long)st.st_size : -errno, read_it(path), list(dir)};
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(read_it(path) == mine[1] ? 7 : 8);
    mine[3] = waitpid(grandchild, &status, 0) == grandchild ? WEXITSTATUS(status) : -1;
    _exit(write(ends[1], mine, sizeof mine) == sizeof mine ? 0 : 1);
  }
  close(ends[1]);
  if (read(ends[0], found, sizeof found) != sizeof found) say("nothing read", errno);
  close(ends[0]);
  waitpid(child, &status, 0);
  for (int i = 0; i < 4; i++) say("forked", found[i]);
}

static void started(const char *path) {
  char command[512], name[] = "cksum", *arguments[] = {name, (char *)path, NULL};
  int status;
  pid_t child;
  snprintf(command, sizeof command, "cat %s", path);
  FILE *from = popen(command, "r");
  say("popen", sum_of(from));
  say("pclose", pclose(from));
  if (posix_spawnp(&child, name, NULL, NULL, arguments, before) != 0) sim_fail("spawn", path);
  waitpid(child, &status, 0);
  say("spawned", status);
  child = vfork();
  if (child == 0) {
    execvpe(name, arguments, before);
    _exit(127);
  }
  waitpid(child, &status, 0);
  say("vforked", status);
}

static void reads(const char *file, const char *other, const char *dir) {
  static const char *const commands[] = {
      "wc -c < $F; test -f $F && test -r $F; test -e $D/none", "stat -c '%s %a %h' $F; ls $D",
      "cp $F copy.dat && cmp $F copy.dat && cksum < copy.dat", "gzip -c $F | gzip -dc | cksum",
      "cd $D && tail -c 99 rank_0.dat | cksum; cat ../../$O | cksum",
      "sh -c \"sh -c 'cat $F'\" | cksum; ( ( cksum < $F ) ); exec 3< $F && cksum <&3",
      "cksum $D/rank_*.dat; cat $D/rank_9.dat 2> /dev/null", "tar cf - $D | tar tf - | sort",
      "find $D -name 'rank_*' -size +1k | sort; realpath $F > /dev/null"};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    shell(commands[i], file, other, dir);
  started(file);
  forked(file, dir);
}

/* One of the changes after another, each on a file that is as it was written. */
static void changes(const char *file, const char *dir, int which) {
  static const char *const commands[] = {
      "echo more >> $F", "rm $F", "rm $F && cp copy.dat $F", "mv $F $D/other.dat", "gzip -n $F",
      "gzip -f $F && gunzip $F.gz", "mv $F $D/rank_7.dat", "mv $F $D/x && mv $D/x $F",
      "cp $F $D/x && echo more >> $D/x && mv $D/x $F", "truncate -s 100 $F", "chmod 600 $F",
      "sed -i s/a/b/ $F", "ln $F keep.$$ && rm keep.$$", "echo new > $F", "rm -r $D && mkdir $D",
      "dd if=/dev/zero of=$F bs=1 seek=5 count=9 conv=notrunc status=none", "cp /dev/null $F",
      "touch $D/rank_8.dat; rm -f $D/none", "mv $D $D.old; cat $D.old/* | cksum",
      "dd if=copy.dat of=$F conv=nocreat status=none"};
  char seven[300];
  const char *command = commands[which % (sizeof commands / sizeof *commands)];
  if (strncmp(command, "echo new", 8) == 0 && chmod(file, 0600) != 0) sim_fail("chmod", file);
  shell(command, file, "none", dir);
  look(file);
  say("names", list(dir));
  snprintf(seven, sizeof seven, "%s/rank_7.dat", dir);
  look(seven);
  shell("ls $D; cksum $F; true", file, "none", dir);
}

/* As a debugger does that a crash handler has started: it stops the rank and opens files. */
static void stopped(const char *dir) {
  shell("begun=$(date +%s); kill -STOP $PPID; cksum copy.dat; echo why > crash.log; "
        "cat crash.log; kill -CONT $PPID; test $(($(date +%s) - begun)) -lt 30",
        "none", "none", dir);
  shell("cat crash.log; ls $D", "none", "none", dir);
}

/* A child that has the file open beside the rank, and goes on writing when the rank has closed it;
 * pclose(3) ends it. */
static FILE *lend(const char *file, const char *mode) {
  char command[512];
  FILE *own = fopen(file, mode);
  if (!own || fputs("the rank", own) < 0 || fflush(own) != 0) sim_fail("fopen", file);
  snprintf(command, sizeof command, "exec >> %s && echo > opened && exec cat", file);
  FILE *child = popen(command, "w");
  while (access("opened", F_OK) != 0) usleep(1000);
  if (unlink("opened") != 0 || fclose(own) != 0) sim_fail("fclose", file);
  return child;
}

/* The rank goes on with the file itself. */
static void append(const char *file) {
  int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0640);
  if (fd < 0 || write(fd, "the rank", 8) != 8 || close(fd) != 0) say("append", -errno);
  look(file);
  shell("cksum $F", file, "none", "none");
}

static void act(const sim_t *sim, int step, int change) {
  char path[256], other[256], dir[64];
  snprintf(dir, sizeof dir, "ckpt/step_%d", step);
  snprintf(path, sizeof path, "%s/rank_0.dat", dir);
  snprintf(other, sizeof other, "%s/rank_1.dat", dir);
  if (sim->rank != 0 || step < 1) return;
  if (change < 0) {
    reads(path, other, dir);
  } else {
    changes(path, dir, change);
    append(path);
  }
}

/* The file of rank 1 is closed; no collective call says so. */
static void wait_for_file(const sim_t *sim) {
  int token = 0;
  if (sim->rank == 1) MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  if (sim->rank == 0) MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void settle(void) {
  sim_calm(20, 4000);
}

/* The file is in progress at the odd steps, and complete at the others. */
static void write_by_two(const sim_t *sim) {
  char path[256];
  FILE *child = NULL;
  snprintf(path, sizeof path, "ckpt/step_%d/rank_0.dat", sim->step);
  if (sim->step % 2 == 0) settle();
  if (sim->rank == 0) child = lend(path, sim->step % 2 == 0 ? "r+" : "a");
  settle();
  if (child && (fputs("the child", child) < 0 || pclose(child) != 0)) say("child", errno);
  if (child) look(path);
}

static volatile int busy = 1;

static void *work(void *path) {
  while (busy) read_it(path), list("ckpt/step_1");
  return NULL;
}

/* Children that are forked while threads of the rank are in the middle of file calls, and one of
 * them lives longer than the rank. */
static void fork_among_threads(const sim_t *sim) {
  char path[] = "ckpt/step_1/rank_0.dat";
  pthread_t threads[2];
  int right = 0, ends[2];
  char end;
  long sum = read_it(path);
  if (sim->rank != 0) return;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, path);
  for (int i = 0; i < 50; i++) {
    int status;
    pid_t child = fork();
    if (child == 0) _exit(read_it(path) == sum && list("ckpt/step_1") > 300000 ? 7 : 8);
    right += waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7;
  }
  say("right", right);
  if (pipe(ends) != 0) sim_fail("pipe", path);
  if (fork() == 0) {
    close(ends[1]);
    ssize_t got = read(ends[0], &end, 1); /* until the rank has gone */
    time_t gone = time(NULL);
    long found = read_it(path);
    FILE *report = fopen("report", "w");
    const char *when = time(NULL) - gone < 30 ? "at once" : "late";
    if (report && fprintf(report, "%zd %ld %s\n", got, found, when) > 0) fclose(report);
    _exit(0);
  }
  busy = 0;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

/* Children write all checkpoints, of which the rank keeps two, as the file system sees them. */
static void keep_two(const sim_t *sim, int steps) {
  char name[60], dir[40];
  for (int step = 1; step <= steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (sim->rank != 0) continue;
    snprintf(dir, sizeof dir, "ckpt/step_%d", step);
    if (mkdir("ckpt", 0777) != 0 && errno != EEXIST) sim_fail("cannot make", "ckpt");
    if (mkdir(dir, 0777) != 0) sim_fail("cannot make", dir);
    snprintf(name, sizeof name, "%s/rank_0.dat", dir);
    pid_t child = fork();
    if (child == 0) {
      FILE *file = fopen(name, "w");
      _exit(!file || fprintf(file, "%d\n", step) < 0 || fclose(file) != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say(name, status);
    snprintf(name, sizeof name, "ckpt/step_%d/rank_0.dat", step - 2);
    if (step > 2 && unlink(name) != 0) sim_fail("cannot remove", name);
  }
  if (sim->rank == 0) shell("env -u LD_PRELOAD sh -c 'cat ckpt/step_*/*'", "", "", "");
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  sim_t sim;
  int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
  int changing = threads || (argc > 1 && strcmp(argv[1], "change") == 0);
  int lent = argc > 1 && strcmp(argv[1], "lent") == 0;
  int steps = argc > 2 ? atoi(argv[2]) : 3;
  copy_environment();
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  if (argc > 1 && strcmp(argv[1], "keep") == 0) {
    keep_two(&sim, steps);
    MPI_Finalize();
    return 0;
  }
  if (sim.rank == 0 && system("head -c 5000 /dev/zero > copy.dat") != 0) return 1;
  for (int i = 0; i < steps; i++) {
    sim_step(&sim, MPI_COMM_WORLD);
    sim_checkpoint(&sim);
    wait_for_file(&sim);
    if (threads) fork_among_threads(&sim);
    if (threads && sim.rank == 0) stopped("ckpt/step_1");
    if (lent) write_by_two(&sim);
    if (lent) continue;
    /* Right after the close, when it is complete, and long after: each its own checkpoint. */
    if (threads) break;
    if (!changing || i % 3 == 0) act(&sim, sim.step, changing ? i : -1);
    settle();
    if (!changing || i % 3 == 1) act(&sim, sim.step, changing ? i : -1);
    if (!changing || i % 3 == 2) act(&sim, sim.step - 1, changing ? i : -1);
    settle();
  }
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Finalize();
  if (sim.rank == 0 && !changing && !lent)
    act(&sim, sim.step, -1);
  return 0;
}
