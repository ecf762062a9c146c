// Every clock against the kernel's, for 150 ms, after what the arguments ask for was done to the process.
// Each is done before the first reading. With `tell` it says whose answers they were.
#include "check.h"
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void limit(int resource, rlim_t most) {
  struct rlimit limit = {most, most};
  if (setrlimit(resource, &limit)) {
    perror("setrlimit");
    exit(77);
  }
}

int main(int count, char **arguments) {
  int tells = 0, forks = 0, is_hidden = 0;
  for (int i = 1; i < count; i++) {
    const char *word = arguments[i];
    if (!strcmp(word, "tell")) tells = 1;
    else if (!strcmp(word, "fork")) forks = 1;
    else if (!strcmp(word, "no-vdso")) {
      if (getauxval(AT_SYSINFO_EHDR)) return 3;
      char word;
      int vector = open("/proc/self/auxv", O_RDONLY);
      if (vector >= 0 && read(vector, &word, 1) == 0) is_hidden = 1;
      close(vector);
    }
    else if (!strcmp(word, "no-descriptors")) limit(RLIMIT_NOFILE, 0);
    else if (!strcmp(word, "no-memory")) limit(RLIMIT_AS, 1);
    else if (!strcmp(word, "no-locked-memory")) limit(RLIMIT_MEMLOCK, 0);
    else if (!strcmp(word, "no-file-size")) limit(RLIMIT_FSIZE, 0);
    else if (!strncmp(word, "root=", 5)) {
      if (chroot(word + 5) || chdir("/")) {
        perror("chroot");
        return 77;
      }
    } else return 2;
  }
  if (tells && getauxval(AT_SECURE)) puts("raised");
  if (is_hidden) puts("hidden from all");
  // A pipe is no file: a limit on file sizes does not apply to what is told.
  check_for("main", 150000000);
  if (forks) {
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
      check_for("child", 50000000);
      _exit(failures != 0);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child ended with %x", status);
  }
  if (tells) puts(!clockwise_reading ? "libc answers" : from_counter > 100 ? "the counter answers" : "the kernel answers");
  return finish();
}
