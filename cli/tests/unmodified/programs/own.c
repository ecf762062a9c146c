// A program with a clock_gettime of its own, made from C11's timespec_get: what libc asks of itself never comes back here.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int calls;

int clock_gettime(clockid_t clock, struct timespec *time) {
  (void)clock;
  calls++;
  return timespec_get(time, TIME_UTC) == TIME_UTC ? 0 : -1;
}

int main(void) {
  struct timespec ours, kernels;
  int result = clock_gettime(CLOCK_REALTIME, &ours);
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &kernels);
  long apart = kernels.tv_sec - ours.tv_sec;
  int holds = result == 0 && calls == 1 && apart >= 0 && apart <= 1;
  puts(holds ? "held" : "a call came back, or told another time");
  return !holds;
}
