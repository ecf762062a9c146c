/* C's clock functions in one process: libc's, two images' that were loaded beside it, and the least that they could be.
 *
 * Batches of about 0.1 ms, all subjects of a row in each round, in a new order each time. Prints for each row and
 * subject a line `row TAB subject TAB lower quartile in ns TAB median in ns`, and before them what this process sees
 * of the vDSO. Must never call a clock by a name that the loader may have bound to an image: it is not preloaded.
 *
 * Built and run by measure. usage: calls ORDERED.so RELAXED.so ROUNDS SEED PLACE, which is 0 to 3 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 10000
#define SUBJECTS_MAX 6
#define BATCH_NS 100e3
#define WARM_NS 20e6

/* One loop a signature, for all subjects; where a loop lies in memory is worth up to 2 ns, so there are four copies of
 * it, 16 bytes further each. */
#define PLACES 4
#if defined __x86_64__
#define PLACED(bytes) __asm__ volatile(".balign 64\n\t.skip " #bytes ", 0x90")
#else
#define PLACED(bytes) __asm__ volatile(".balign 64\n\t.rept " #bytes " / 4\n\tnop\n\t.endr")
#endif
typedef void loop(void *function, int clock, long n);
#define LOOP_AT(name, bytes, result, parameters, ...)                                                                  \
  __attribute__((noinline, aligned(64))) static void name(void *function, int clock, long n) {                        \
    result(*call) parameters = (result(*) parameters)function;                                                         \
    (void)clock;                                                                                                       \
    PLACED(bytes);                                                                                                     \
    for (long i = 0; i < n; i++) call(__VA_ARGS__);                                                                    \
  }
#define LOOP(name, ...)                                                                                                \
  LOOP_AT(name##_0, 64, __VA_ARGS__)                                                                                   \
  LOOP_AT(name##_1, 16, __VA_ARGS__)                                                                                   \
  LOOP_AT(name##_2, 32, __VA_ARGS__)                                                                                   \
  LOOP_AT(name##_3, 48, __VA_ARGS__)                                                                                   \
  static loop *const name[PLACES] = {name##_0, name##_1, name##_2, name##_3};
static struct timespec ts;
static struct timeval tv;
LOOP(of_clock, int, (clockid_t, struct timespec *), clock, &ts)
LOOP(of_day, int, (struct timeval *, void *), &tv, NULL)
LOOP(of_second, time_t, (time_t *), NULL)

/* The floors: functions that do nothing but read the counter and store two words. */
#if defined __x86_64__
#define UNORDERED "rdtsc", "rdtsc"
#define ORDERED_A "rdtscp", "rdtscp"
#define ORDERED_B "lfence;rdtsc", "lfence; rdtsc"
#define COUNTER(code, low, high) __asm__ volatile(code : "=a"(low), "=d"(high) : : "rcx", "memory")
#elif defined __aarch64__
#define UNORDERED "cntvct", "mrs %0, cntvct_el0"
#define ORDERED_A "isb;cntvct", "isb; mrs %0, cntvct_el0"
#define ORDERED_B "isb;cntvct;isb", "isb; mrs %0, cntvct_el0; isb"
#define COUNTER(code, low, high) (high = 0, ({ __asm__ volatile(code : "=r"(low) : : "memory"); }))
#else
#error "no counter of this processor is known"
#endif
#define NAME_OF_(name, code) name
#define CODE_OF_(name, code) code
#define NAME_OF(floor) NAME_OF_(floor)
#define CODE_OF(floor) CODE_OF_(floor)
#define FLOOR(name, code)                                                                                              \
  static int clock_##name(clockid_t clock, struct timespec *out) {                                                     \
    uint64_t low, high;                                                                                                \
    (void)clock;                                                                                                       \
    COUNTER(code, low, high);                                                                                          \
    out->tv_sec = low, out->tv_nsec = high;                                                                            \
    return 0;                                                                                                          \
  }                                                                                                                    \
  static int day_##name(struct timeval *out, void *zone) {                                                             \
    uint64_t low, high;                                                                                                \
    (void)zone;                                                                                                        \
    COUNTER(code, low, high);                                                                                          \
    out->tv_sec = low, out->tv_usec = high;                                                                            \
    return 0;                                                                                                          \
  }
FLOOR(unordered, CODE_OF(UNORDERED))
FLOOR(ordered_a, CODE_OF(ORDERED_A))
FLOOR(ordered_b, CODE_OF(ORDERED_B))

static const struct { const char *name; void *of_clock, *of_day; } floors[] = {
  {NAME_OF(UNORDERED), clock_unordered, day_unordered},
  {NAME_OF(ORDERED_A), clock_ordered_a, day_ordered_a},
  {NAME_OF(ORDERED_B), clock_ordered_b, day_ordered_b},
};

static const struct {
  const char *name, *symbol;
  int clock, is_followed;
  loop *const *loops;
} rows[] = {
  {"REALTIME", "clock_gettime", CLOCK_REALTIME, 1, of_clock},
  {"MONOTONIC", "clock_gettime", CLOCK_MONOTONIC, 1, of_clock},
  {"BOOTTIME", "clock_gettime", CLOCK_BOOTTIME, 1, of_clock},
  {"TAI", "clock_gettime", CLOCK_TAI, 1, of_clock},
  {"MONOTONIC_RAW", "clock_gettime", CLOCK_MONOTONIC_RAW, 1, of_clock},
  {"gettimeofday", "gettimeofday", CLOCK_REALTIME, 1, of_day},
  {"REALTIME_COARSE", "clock_gettime", CLOCK_REALTIME_COARSE, 0, of_clock},
  {"MONOTONIC_COARSE", "clock_gettime", CLOCK_MONOTONIC_COARSE, 0, of_clock},
  {"PROCESS_CPUTIME_ID", "clock_gettime", CLOCK_PROCESS_CPUTIME_ID, 0, of_clock},
  {"THREAD_CPUTIME_ID", "clock_gettime", CLOCK_THREAD_CPUTIME_ID, 0, of_clock},
  {"time", "time", 0, 0, of_second},
  {"clock_getres", "clock_getres", CLOCK_MONOTONIC, 0, of_clock},
};

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *opened(const char *path, int flags) {
  void *library = dlopen(path, RTLD_NOW | flags);
  if (!library) { fprintf(stderr, "calls: %s\n", dlerror()); exit(1); }
  return library;
}

/* Whether /proc/self/auxv, where the image looks, names a vDSO. */
static int auxv_file_names_vdso(void) {
  uint64_t entries[64][2] = {{0}};
  int file = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? 0 : read(file, entries, sizeof entries);
  if (file >= 0) close(file);
  for (ssize_t i = 0; i * 16 < length; i++)
    if (entries[i][0] == AT_SYSINFO_EHDR) return entries[i][1] != 0;
  return 0;
}

static uint64_t random_state;
static uint64_t random_below(uint64_t n) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return random_state % n;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **arguments) {
  long rounds = count == 6 ? atol(arguments[3]) : 0;
  long place = count == 6 ? atol(arguments[5]) : 0;
  if (rounds < 4 || rounds > ROUNDS_MAX || place < 0 || place >= PLACES) {
    fprintf(stderr, "usage: calls ORDERED.so RELAXED.so ROUNDS SEED PLACE\n");
    return 2;
  }
  random_state = strtoull(arguments[4], NULL, 10) * 2654435761u + 1;
  void *libraries[3] = {opened("libc.so.6", RTLD_NOLOAD), opened(arguments[1], 0), opened(arguments[2], 0)};
  static const char *names[3] = {"libc", "ordered", "relaxed"};
  printf("vdso\tlibc\t%d\t\n", getauxval(AT_SYSINFO_EHDR) != 0);
  printf("vdso\timage\t%d\t\n", auxv_file_names_vdso());
  static double samples[SUBJECTS_MAX][ROUNDS_MAX];
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    struct { const char *name; void *function; long calls; } subjects[SUBJECTS_MAX];
    loop *const run = rows[r].loops[place];
    int n = 0, is_warm = 1;
    for (int i = 0; i < 3; i++, n++) {
      subjects[n].name = names[i], subjects[n].function = dlsym(libraries[i], rows[r].symbol);
      if (!subjects[n].function) { fprintf(stderr, "calls: no %s in %s\n", rows[r].symbol, names[i]); return 1; }
    }
    for (int i = 0; rows[r].is_followed && i < 3; i++, n++)
      subjects[n].name = floors[i].name,
      subjects[n].function = rows[r].loops == of_day ? floors[i].of_day : floors[i].of_clock;
    for (int s = 0; s < n; s++) {
      /* An image answers from the counter after a millisecond or two of reading. */
      double begin = now_ns();
      while (now_ns() - begin < WARM_NS / n) run(subjects[s].function, rows[r].clock, 100);
      long calls = 1;
      for (;;) {
        /* The shorter of two: one may have been interrupted. */
        double first = now_ns();
        run(subjects[s].function, rows[r].clock, calls);
        double middle = now_ns();
        run(subjects[s].function, rows[r].clock, calls);
        double second = now_ns() - middle;
        double taken = middle - first < second ? middle - first : second;
        if (taken > BATCH_NS / 2) { calls = calls * BATCH_NS / taken; break; }
        calls *= 2;
      }
      subjects[s].calls = calls > 0 ? calls : 1;
    }
    for (long i = 0; i < rounds; i++) {
      int order[SUBJECTS_MAX];
      for (int s = 0; s < n; s++) {
        int at = random_below(s + 1);
        order[s] = order[at], order[at] = s;
      }
      for (int o = 0; o < n; o++) {
        int s = order[o];
        double begin = now_ns();
        run(subjects[s].function, rows[r].clock, subjects[s].calls);
        samples[s][i] = (now_ns() - begin) / subjects[s].calls;
      }
    }
    for (int i = 1; rows[r].is_followed && i < 3; i++) {
      int (*reading)(int, uint64_t *) = (int (*)(int, uint64_t *))dlsym(libraries[i], "clockwise_reading");
      /* One in each period is the kernel's. */
      int by_counter = 0;
      for (int k = 0; reading && k < 100; k++) {
        uint64_t told[4] = {0}; /* nanos, error_ns, steady_error_ns, is_from_counter */
        by_counter += reading(rows[r].clock, told) == 0 && told[3];
      }
      if (by_counter < 50) is_warm = 0;
    }
    if (!is_warm) printf("%s\tfrom kernel\t1\t\n", rows[r].name);
    for (int s = 0; s < n; s++) {
      qsort(samples[s], rounds, sizeof(double), ascending);
      printf("%s\t%s\t%.4f\t%.4f\n", rows[r].name, subjects[s].name, samples[s][rounds / 4], samples[s][rounds / 2]);
    }
  }
  return 0;
}
