/* What counting adds to a call, in one process under `clockwise profile`: the function that the program is bound to, which
 * counts, and libc's own beside it, which does not.
 *
 * Batches of both in turns, in both orders; a line for each clock and each depth of the stack: libc's call, the counted
 * one and the difference, lower quartiles in ns. Deep stacks have frame pointers: their callers are looked at now and
 * then. Must be built with -fno-omit-frame-pointer -fno-optimize-sibling-calls.
 *
 * usage: clockwise profile --save /dev/null -- counting [ROUNDS [THREADS]] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS 4000
#define ROUNDS_MAX 10000
#define DEPTH 24

typedef int gettime(clockid_t, struct timespec *);
static gettime *plain, *counted;
static struct { clockid_t id; const char *name; } clocks[] = {
  {CLOCK_MONOTONIC, "MONOTONIC"}, {CLOCK_REALTIME, "REALTIME"}, {CLOCK_MONOTONIC_COARSE, "MONOTONIC_COARSE"}};

__attribute__((noinline)) static void loop(gettime *call, clockid_t clock) {
  struct timespec ts;
  for (int i = 0; i < CALLS; i++) call(clock, &ts);
}

__attribute__((noinline)) static void deep(int depth, gettime *call, clockid_t clock) {
  if (depth > 0) deep(depth - 1, call, clock);
  else loop(call, clock);
  __asm__ volatile("");
}

static double batch(int depth, gettime *call, clockid_t clock) {
  struct timespec begin, end;
  plain(CLOCK_MONOTONIC, &begin);
  deep(depth, call, clock);
  plain(CLOCK_MONOTONIC, &end);
  return ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / CALLS;
}

static int less(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quartile(double *all, int n) {
  qsort(all, n, sizeof *all, less);
  return all[n / 4];
}

static int rounds = 400;

static void *measure(void *first) {
  static __thread double with[ROUNDS_MAX], without[ROUNDS_MAX];
  for (unsigned c = 0; c < sizeof clocks / sizeof *clocks; c++)
    for (int depth = 0; depth <= DEPTH; depth += DEPTH) {
      for (int r = 0; r < rounds; r++)
        for (int turn = 0; turn < 2; turn++) {
          if ((turn + r) % 2) with[r] = batch(depth, counted, clocks[c].id);
          else without[r] = batch(depth, plain, clocks[c].id);
        }
      double a = quartile(without, rounds), b = quartile(with, rounds);
      if (first) printf("%-17s %2d frames deep: libc %6.2f ns, counted %6.2f ns, +%5.2f ns\n", clocks[c].name, depth, a, b, b - a);
    }
  return NULL;
}

int main(int n, char **v) {
  if (n > 1) rounds = atoi(v[1]);
  if (rounds < 4 || rounds > ROUNDS_MAX) return 2;
  int threads = n > 2 ? atoi(v[2]) : 1;
  void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (!libc) return 2;
  plain = (gettime *)dlsym(libc, "clock_gettime");
  counted = (gettime *)dlsym(RTLD_DEFAULT, "clock_gettime");
  if (!plain || plain == counted) {
    fputs("nothing counts here: start it by clockwise profile\n", stderr);
    return 2;
  }
  pthread_t others[64];
  for (int i = 1; i < threads && i < 64; i++) pthread_create(&others[i], NULL, measure, NULL);
  measure(&threads);
  for (int i = 1; i < threads && i < 64; i++) pthread_join(others[i], NULL);
  return 0;
}
