/* A script and a program that lie among the checkpoint files are run, in every way there is. */
#define _GNU_SOURCE
#include "sim.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void ended(const char *how, pid_t pid) {
  int status = -1;
  if (pid <= 0 || waitpid(pid, &status, 0) != pid) printf("%s: none\n", how);
  else printf("%s: %d\n", how, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  fflush(stdout);
}

static void run(char *path) {
  char *arguments[] = {"this", "one", "runs", NULL}, command[200];
  pid_t pid = 0;
  snprintf(command, sizeof command, "%s by a shell", path);
  fflush(stdout);
  printf("system: %d\n", system(command));
  fflush(stdout);
  if ((pid = fork()) == 0) _exit(execv(path, arguments) == 0 ? 0 : errno);
  ended("execv", pid);
  if ((pid = fork()) == 0) _exit(execve(path, arguments, environ) == 0 ? 0 : errno);
  ended("execve", pid);
  if ((pid = fork()) == 0) _exit(execvp(path, arguments) == 0 ? 0 : errno);
  ended("execvp", pid);
  if ((pid = fork()) == 0) _exit(execvpe(path, arguments, environ) == 0 ? 0 : errno);
  ended("execvpe", pid);
  if ((pid = vfork()) == 0) _exit(execve(path, arguments, environ) == 0 ? 0 : errno);
  ended("vfork", pid);
  pid = 0;
  int code = posix_spawn(&pid, path, NULL, NULL, arguments, environ);
  ended("posix_spawn", pid);
  pid = 0;
  printf("%s\n", strerror(code));
  code = posix_spawnp(&pid, path, NULL, NULL, arguments, environ);
  ended("posix_spawnp", pid);
  printf("%s\n", strerror(code));
}

static void put(const char *path, const void *data, size_t bytes) {
  int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0755);
  if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes || close(fd)) sim_fail("write", path);
}

int main(int argc, char **argv) {
  static const char script[] = "#!/bin/sh\necho from the script: \"$@\"; exit 7\n";
  static char data[4 << 20];
  sim_t sim;
  MPI_Init(&argc, &argv);
  sim_init(&sim);
  sim_mkdir(&sim, 1);
  int fd = open("/bin/echo", O_RDONLY);
  ssize_t bytes = read(fd, data, sizeof data);
  if (bytes <= 0) sim_fail("cannot read", "/bin/echo");
  close(fd);
  for (int round = 0; round < 2; round++) { // not sealed yet; sealed
    if (round == 0) {
      put("ckpt/step_1/script", script, sizeof script - 1);
      put("ckpt/step_1/echo", data, bytes);
    }
    run("ckpt/step_1/script");
    run("ckpt/step_1/echo");
    run("ckpt/step_1/none");
    if (chdir("ckpt") == 0) run("./step_1/script");
    if (chdir("..") != 0) sim_fail("chdir", "..");
    sim_calm(100, 1000);
  }
  MPI_Finalize();
  return 0;
}
