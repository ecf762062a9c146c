// Files beside clocks, at changes of the second: a file made after time() is never older than it, and one made before a
// reading of the wall clock is never younger.
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

#define CHANGES 3

int main(int count, char **arguments) {
  if (count != 2 || chdir(arguments[1])) return 77;
  for (int change = 0; change < CHANGES; change++) {
    // From 30 ms before the second, for this may be woken late, to 12 after: the coarse clock follows by a tick, 10 ms at most.
    long long next = (kernel(CLOCK_REALTIME) / SECOND_NS + 1) * SECOND_NS;
    struct timespec start = timespec_of(next - 30000000);
    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &start, NULL)) continue;
    do {
      time_t second = time(NULL);
      struct stat status;
      unlink("file");
      int descriptor = open("file", O_CREAT | O_EXCL | O_WRONLY, 0600);
      if (descriptor < 0 || fstat(descriptor, &status)) return 77;
      close(descriptor);
      long long told = told_ns(CLOCK_REALTIME, 1), now = ours(CLOCK_REALTIME);
      told = larger(told, told_ns(CLOCK_REALTIME, 1)) + SPARE_NS;
      CHECK(status.st_mtime >= second, "a new file is of second %ld, time() said %ld", (long)status.st_mtime, (long)second);
      CHECK(ns(status.st_mtim) <= now + told, "a file is %lld ns younger than now", ns(status.st_mtim) - now);
    } while (kernel(CLOCK_REALTIME) < next + 12000000);
  }
  unlink("file");
  return finish();
}
