// Every clock's number, known or not: what clock_gettime and clock_getres answer, for a comparison with the same
// program alone. CPU clocks of threads and processes, the extremes, and the clock of a descriptor that is closed.
#include "check.h"
#include <limits.h>
#include <pthread.h>

static volatile int stop;

static void *spin(void *argument) {
  while (!stop) continue;
  return argument;
}

static void say(const char *name, int index, clockid_t id) {
  struct timespec before, reading, after, resolution = {-1, -1};
  int known = syscall(SYS_clock_gettime, id, &before) == 0;
  errno = 0;
  int result = clock_gettime(id, &reading), error = errno;
  syscall(SYS_clock_gettime, id, &after);
  const char *value = "none";
  if (result == 0 && known) {
    int followed = 0;
    for (size_t i = 0; i < COUNT(FOLLOWED); i++) followed |= FOLLOWED[i] == id;
    int within = ns(before) <= ns(reading) && ns(reading) <= ns(after);
    value = (followed ? excess(id) <= 0 : within) ? "the kernel's" : "WRONG";
  }
  printf("%s %d: gettime %d, errno %d, value %s; ", name, index, result, error, value);
  errno = 0;
  result = clock_getres(id, &resolution), error = errno;
  printf("getres %d, errno %d, %lld ns; ", result, error, result ? -1 : ns(resolution));
  errno = 0;
  result = clock_getres(id, NULL), error = errno;
  printf("without a place %d, errno %d\n", result, error);
}

int main(void) {
  pthread_t thread;
  clockid_t id;
  // Past the start, when the kernel answers anyway; then at once again.
  check_for("before", 5000000);
  pthread_create(&thread, NULL, spin, NULL);
  for (int round = 0; round < 2; round++) {
    for (int i = -8; i < 24; i++) say("number", i, i);
    pthread_getcpuclockid(thread, &id);
    say("another thread", 0, id);
    pthread_getcpuclockid(pthread_self(), &id);
    say("this thread", 0, id);
    clock_getcpuclockid(getpid(), &id);
    say("this process", 0, id);
    clock_getcpuclockid(1, &id);
    say("process 1", 0, id);
    say("largest", 0, INT_MAX);
    say("smallest", 0, INT_MIN);
    say("a closed descriptor", 0, (clockid_t)(~500u << 3 | 3));
  }
  stop = 1;
  pthread_join(thread, NULL);
  return finish();
}
