// The kernel's wall clock and monotonic clock, by system call, in nanoseconds: the judge of programs that cannot make one.
#include "check.h"

int main(void) {
  printf("%lld %lld\n", kernel(CLOCK_REALTIME), kernel(CLOCK_MONOTONIC));
  return 0;
}
