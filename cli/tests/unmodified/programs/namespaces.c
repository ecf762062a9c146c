// Clocks against the kernel's where it has moved: in this process as it was started, and then, with `enter`, in a child
// that was born into a further time namespace without exec, and in this process itself, which follows it there.
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static void needs(int holds, const char *what) {
  if (holds) return;
  perror(what);
  exit(77);
}

// A process that moves itself is told in no way, so that its clocks follow as they do after a step: with the next
// comparisons, while somebody reads. If they never do, the watchdog ends this.
static void follow(void) {
  for (;;) {
    int off = 0;
    for (size_t i = 0; i < COUNT(FOLLOWED); i++) off += excess(FOLLOWED[i]) > 0;
    if (!off) return;
    usleep(100);
  }
}

int main(int count, char **arguments) {
  (void)arguments;
  check_for("as started", 50000000);
  if (count == 1) return finish();
  needs(unshare(CLONE_NEWTIME) == 0, "unshare");
  int offsets = open("/proc/self/timens_offsets", O_WRONLY);
  static const char text[] = "monotonic 864000 0\nboottime 1728000 0\n";
  needs(write(offsets, text, sizeof text - 1) == sizeof text - 1, "timens_offsets");
  close(offsets);
  check_for("after unshare, which moves only children", 20000000);
  long long before = kernel(CLOCK_MONOTONIC);
  pid_t child = fork();
  if (child == 0) {
    CHECK(kernel(CLOCK_MONOTONIC) - before > 86400 * SECOND_NS, "the child is not in the namespace");
    check_for("a child in a namespace of its own", 50000000);
    _exit(failures != 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0, "the child ended with status %x", status);
  int there = open("/proc/self/ns/time_for_children", O_RDONLY);
  needs(setns(there, CLONE_NEWTIME) == 0, "setns");
  CHECK(kernel(CLOCK_MONOTONIC) - before > 86400 * SECOND_NS, "the process is not in the namespace");
  follow();
  check_for("after setns", 100000000);
  return finish();
}
