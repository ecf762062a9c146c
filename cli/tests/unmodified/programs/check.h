// What the programs share: the kernel's clocks by system call, the bound of a reading, and a way to fail in words.
// The bound: a reading tells how far it may be from the kernel's (`clockwise_reading`, which only the image has); where
// nobody tells, it is what the library's documentation promises at the end of its period, a microsecond for each of
// 4 milliseconds. A microsecond comes on top, for what the kernel's own clock is read by (two ends of a bracket).
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOCK_TAI
#define CLOCK_TAI 11
#endif
#define SECOND_NS 1000000000LL
#define PROMISED_NS 4000
#define SPARE_NS 1000
// No sample wider than 0.1 ms is used, and no period is longer than 250 ms: a larger claim would make a test vacuous.
#define CLAIM_MAX_NS 400000

static const clockid_t FOLLOWED[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_TAI};
static const clockid_t COARSE[] = {CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE};
#define COUNT(array) (sizeof(array) / sizeof *(array))

extern int clockwise_reading(int clock, uint64_t out[4]) __attribute__((weak));

static int failures;
static long from_counter; // Readings that were computed, by the image's own account.
#define CHECK(holds, ...) \
  do { \
    if (!(holds) && __sync_add_and_fetch(&failures, 1) <= 10) { \
      printf("%s:%d: ", __FILE__, __LINE__); \
      printf(__VA_ARGS__); \
      putchar('\n'); \
      fflush(stdout); \
    } \
  } while (0)

static inline int finish(void) {
  puts(failures ? "failed" : "held");
  return failures != 0;
}

static inline long long ns(struct timespec t) { return t.tv_sec * SECOND_NS + t.tv_nsec; }

static inline struct timespec timespec_of(long long n) {
  return (struct timespec){.tv_sec = n / SECOND_NS, .tv_nsec = n % SECOND_NS};
}

// The kernel's clock, whatever is preloaded.
static inline long long kernel(clockid_t id) {
  struct timespec t;
  if (syscall(SYS_clock_gettime, id, &t)) {
    perror("clock_gettime by system call");
    exit(77);
  }
  return ns(t);
}

// What any program gets.
static inline long long ours(clockid_t id) {
  struct timespec t = {-1, -1};
  int result = clock_gettime(id, &t);
  CHECK(result == 0 && t.tv_nsec >= 0 && t.tv_nsec < SECOND_NS, "clock %d: %d, %lld, %ld", (int)id, result,
        (long long)t.tv_sec, (long)t.tv_nsec);
  return ns(t);
}

// How far off a reading of now may be: whatever adjtimex does to the rate (1), or if the rate is kept (2).
static inline long long told_ns(clockid_t id, int which) {
  uint64_t out[4] = {0};
  if (!clockwise_reading) return which == 1 ? PROMISED_NS : SPARE_NS;
  int result = clockwise_reading(id, out);
  CHECK(result == 0, "clockwise_reading(%d): %d", (int)id, result);
  if (out[3]) __sync_add_and_fetch(&from_counter, 1);
  CHECK(out[which] < CLAIM_MAX_NS, "clock %d: claims to be %llu ns off", (int)id, (unsigned long long)out[which]);
  return (long long)out[which];
}

static inline long long larger(long long a, long long b) { return a > b ? a : b; }

// How far a reading lies outside of the kernel's before and after it, beyond what it may. Asked on both sides, for a
// comparison with the kernel between the two makes the bound small again.
static inline long long excess(clockid_t id) {
  long long told = told_ns(id, 1);
  long long before = kernel(id), reading = ours(id), after = kernel(id);
  told = larger(told, told_ns(id, 1)) + SPARE_NS;
  return larger(before - reading, reading - after) - told;
}

// All of them, and the functions that are not called clock_gettime.
static inline void check_all(const char *where) {
  for (size_t i = 0; i < COUNT(FOLLOWED); i++) {
    long long by = excess(FOLLOWED[i]);
    CHECK(by <= 0, "%s: clock %d is off by %lld ns more than it may", where, (int)FOLLOWED[i], by);
  }
  for (size_t i = 0; i < COUNT(COARSE); i++) {
    long long before = kernel(COARSE[i]), reading = ours(COARSE[i]), after = kernel(COARSE[i]);
    CHECK(before <= reading && reading <= after, "%s: coarse clock %d is %lld, the kernel's %lld", where,
          (int)COARSE[i], reading, before);
  }
  struct timeval v = {-1, -1};
  long long before = kernel(CLOCK_REALTIME);
  int result = gettimeofday(&v, NULL);
  long long after = kernel(CLOCK_REALTIME), micros = v.tv_sec * 1000000LL + v.tv_usec;
  CHECK(result == 0 && v.tv_usec >= 0 && v.tv_usec < 1000000, "%s: gettimeofday gives %d, %ld us", where, result,
        (long)v.tv_usec);
  CHECK(micros >= (before - PROMISED_NS) / 1000 - 1 && micros <= (after + PROMISED_NS) / 1000 + 1,
        "%s: gettimeofday is off by %lld us", where, micros - before / 1000);
  long long first = kernel(CLOCK_REALTIME_COARSE) / SECOND_NS, second = time(NULL);
#ifdef __GLIBC__
  int last_id = CLOCK_REALTIME_COARSE;
#else
  int last_id = CLOCK_REALTIME; // musl's own is the fine clock's second
#endif
  CHECK(first <= second && second <= kernel(last_id) / SECOND_NS, "%s: time() is not the second", where);
}

// The same until so much time has passed by the kernel's clock, and none of the clocks goes back.
static inline void check_for(const char *where, long long duration_ns) {
  long long end = kernel(CLOCK_MONOTONIC) + duration_ns, last[COUNT(FOLLOWED)] = {0};
  while (kernel(CLOCK_MONOTONIC) < end) {
    check_all(where);
    for (int round = 0; round < 200; round++)
      for (size_t i = 0; i < COUNT(FOLLOWED); i++) {
        long long reading = ours(FOLLOWED[i]);
        CHECK(reading >= last[i], "%s: clock %d went back by %lld ns", where, (int)FOLLOWED[i], last[i] - reading);
        last[i] = reading;
      }
  }
}
