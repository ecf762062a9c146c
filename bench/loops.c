/* The calls that `clockwise bench` measures, by plain C loops of the same shape: batches of about
 * 0.1 ms, all sources in turn in each round. Prints `name median_ns` a line.
 * Built and run by bench/compare. usage: loops ROUNDS */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 10000
#define SOURCES_MAX 32

static int (*vdso_gettime)(clockid_t, struct timespec *);
static struct timespec ts;
static struct timeval tv;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

#define LOOP(function, ...)                                                                        \
  static void function(long n) {                                                                   \
    for (long i = 0; i < n; i++) { __VA_ARGS__; }                                                  \
  }
LOOP(libc_realtime, clock_gettime(CLOCK_REALTIME, &ts))
LOOP(libc_monotonic, clock_gettime(CLOCK_MONOTONIC, &ts))
LOOP(libc_monotonic_raw, clock_gettime(CLOCK_MONOTONIC_RAW, &ts))
LOOP(libc_boottime, clock_gettime(CLOCK_BOOTTIME, &ts))
LOOP(libc_tai, clock_gettime(CLOCK_TAI, &ts))
LOOP(libc_coarse, clock_gettime(CLOCK_MONOTONIC_COARSE, &ts))
LOOP(libc_gettimeofday, gettimeofday(&tv, NULL))
LOOP(libc_thread, clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts))
LOOP(vdso_realtime, vdso_gettime(CLOCK_REALTIME, &ts))
LOOP(vdso_monotonic, vdso_gettime(CLOCK_MONOTONIC, &ts))
LOOP(vdso_coarse, vdso_gettime(CLOCK_MONOTONIC_COARSE, &ts))
#ifdef __x86_64__
/* libc's syscall() adds a call and a shuffle of registers; the instruction is what is compared. */
static long call(long number, long a, void *b) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}
LOOP(syscall_realtime, call(SYS_clock_gettime, CLOCK_REALTIME, &ts))
LOOP(syscall_monotonic, call(SYS_clock_gettime, CLOCK_MONOTONIC, &ts))
LOOP(rdtsc, __asm__ volatile("rdtsc" ::: "rax", "rdx"))
LOOP(lfence_rdtsc, __asm__ volatile("lfence; rdtsc" ::: "rax", "rdx", "memory"))
LOOP(rdtscp, __asm__ volatile("rdtscp" ::: "rax", "rdx", "rcx"))
LOOP(rdtscp_lfence, __asm__ volatile("rdtscp; lfence" ::: "rax", "rdx", "rcx", "memory"))
LOOP(cpuid_rdtsc, __asm__ volatile("xor %%eax, %%eax; xor %%ecx, %%ecx; cpuid; rdtsc" ::: "rax", "rbx", "rcx", "rdx", "memory"))
#endif

static struct { const char *name; void (*loop)(long); long calls; double samples[ROUNDS_MAX]; } sources[SOURCES_MAX] = {
  {"libc/realtime", libc_realtime}, {"libc/monotonic", libc_monotonic},
  {"libc/monotonic_raw", libc_monotonic_raw}, {"libc/boottime", libc_boottime}, {"libc/tai", libc_tai},
  {"libc/monotonic_coarse", libc_coarse}, {"libc/gettimeofday", libc_gettimeofday},
  {"libc/thread_cputime", libc_thread}, {"vdso/realtime", vdso_realtime},
  {"vdso/monotonic", vdso_monotonic}, {"vdso/monotonic_coarse", vdso_coarse},
#ifdef __x86_64__
  {"syscall/realtime", syscall_realtime}, {"syscall/monotonic", syscall_monotonic},
  {"counter/rdtsc", rdtsc}, {"counter/lfence;rdtsc", lfence_rdtsc}, {"counter/rdtscp", rdtscp},
  {"counter/rdtscp;lfence", rdtscp_lfence}, {"counter/cpuid;rdtsc", cpuid_rdtsc},
#endif
};

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **arguments) {
  long rounds = count > 1 ? atol(arguments[1]) : 200;
  if (rounds < 1 || rounds > ROUNDS_MAX) { fprintf(stderr, "loops: give 1 to %d rounds\n", ROUNDS_MAX); return 2; }
  /* glibc lets the vDSO be opened by the name that the loader knows it by. */
  void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (vdso) vdso_gettime = dlsym(vdso, "__vdso_clock_gettime");
  if (vdso && !vdso_gettime) vdso_gettime = dlsym(vdso, "__kernel_clock_gettime");
  for (int s = 0; s < SOURCES_MAX && sources[s].name; s++) {
    if (sources[s].name[0] == 'v' && !vdso_gettime) { sources[s].calls = 0; continue; }
    long n = 1;
    for (;;) {
      /* The shorter of two: one may have been interrupted. */
      double begin = now_ns();
      sources[s].loop(n);
      double middle = now_ns();
      sources[s].loop(n);
      double first = middle - begin, second = now_ns() - middle;
      double taken = first < second ? first : second;
      if (taken > 50e3) { n = n * 100e3 / taken; break; }
      n *= 2;
    }
    sources[s].calls = n > 0 ? n : 1;
  }
  for (long r = 0; r < rounds; r++)
    for (int s = 0; s < SOURCES_MAX && sources[s].name; s++) {
      if (!sources[s].calls) continue;
      double begin = now_ns();
      sources[s].loop(sources[s].calls);
      sources[s].samples[r] = (now_ns() - begin) / sources[s].calls;
    }
  for (int s = 0; s < SOURCES_MAX && sources[s].name; s++) {
    if (!sources[s].calls) continue;
    qsort(sources[s].samples, rounds, sizeof(double), ascending);
    printf("%s %.4f\n", sources[s].name, sources[s].samples[rounds / 2]);
  }
  return 0;
}
