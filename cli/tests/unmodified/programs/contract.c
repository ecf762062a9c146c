// The contract of each function to the letter: errno kept, the zone, null pointers, nothing written beside, and what a
// pointer to nowhere does (in a child), for a comparison with the same program alone.
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>

static void *nowhere;

static int with_bad_pointer(int call) {
  void *volatile place = nowhere;
  void *volatile none = NULL;
  struct timeval v;
  switch (call) {
  case 0: return clock_gettime(CLOCK_MONOTONIC, place);
  case 1: return clock_gettime(CLOCK_REALTIME, none);
  case 2: return clock_gettime(CLOCK_MONOTONIC_COARSE, place);
  case 3: return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, place);
  case 4: return clock_gettime(1000, none);
  case 5: return gettimeofday(place, NULL);
  case 6: return gettimeofday(&v, place);
  case 7: return gettimeofday(none, NULL);
  case 8: return (int)time(place);
  case 9: return clock_getres(CLOCK_MONOTONIC, place);
  case 10: return clock_getres(1000, place);
  default: return timespec_get(place, TIME_UTC);
  }
}

static void say_bad_pointer(int call, int warm) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    if (warm) check_for("warm", 5000000);
    errno = 0;
    int result = with_bad_pointer(call);
    printf("bad pointer %d: %d, errno %d\n", call, result, errno);
    fflush(stdout);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (status) printf("bad pointer %d: status %x\n", call, status);
}

static void nothing_beside(void) {
  struct {
    long before;
    struct timeval v;
    struct timezone zone;
    long after;
  } place;
  memset(&place, 0x55, sizeof place);
  errno = 4242;
  int result = gettimeofday(&place.v, &place.zone);
  CHECK(result == 0 && errno == 4242, "gettimeofday: %d, errno %d", result, errno);
  CHECK(place.before == 0x5555555555555555 && place.after == 0x5555555555555555, "gettimeofday wrote beside its places");
  printf("zone %d %d\n", place.zone.tz_minuteswest, place.zone.tz_dsttime);
  struct {
    long before;
    struct timespec t;
    long after;
  } narrow;
  for (size_t i = 0; i < COUNT(FOLLOWED); i++) {
    memset(&narrow, 0x55, sizeof narrow);
    result = clock_gettime(FOLLOWED[i], &narrow.t);
    CHECK(result == 0 && errno == 4242, "clock_gettime: %d, errno %d", result, errno);
    CHECK(narrow.before == 0x5555555555555555 && narrow.after == 0x5555555555555555, "clock_gettime wrote beside");
  }
  memset(&narrow, 0x55, sizeof narrow);
  errno = 0;
  result = clock_gettime(1000, &narrow.t);
  CHECK(result == -1 && errno == EINVAL && narrow.t.tv_sec == 0x5555555555555555, "an unknown clock was answered");
}

int main(void) {
  nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int warm = 0; warm < 2; warm++) {
    nothing_beside();
    errno = 4242;
    time_t stored = -1, told = time(&stored);
    CHECK(stored == told && errno == 4242, "time stored %ld and told %ld, errno %d", (long)stored, (long)told, errno);
    for (int base = 0; base < 5; base++) {
      struct timespec t = {-1, -1};
      errno = 4242;
      int result = timespec_get(&t, base);
      printf("timespec_get with base %d: %d, %s, errno %d\n", base, result, t.tv_nsec == -1 ? "unwritten" : "written",
             errno);
      if (base == TIME_UTC) CHECK(llabs(ns(t) - kernel(CLOCK_REALTIME)) < SECOND_NS, "timespec_get is %lld", ns(t));
    }
    for (int call = 0; call < 12; call++) say_bad_pointer(call, warm);
    check_for("main", 5000000);
  }
  for (int i = 0; i < 300000; i++) {
    struct timeval v;
    gettimeofday(&v, NULL);
    CHECK(v.tv_usec >= 0 && v.tv_usec < 1000000, "%ld microseconds", (long)v.tv_usec);
  }
  return finish();
}
