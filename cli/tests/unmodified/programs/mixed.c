// Two threads on two processors hand each other times that they read by three ways: the clock under test, libc's own
// function (the vDSO), the system call. A later reading may be earlier than the one handed over only by how far the
// clock under test may be from the kernel's. Between readings of one and the same way by nothing at all, except with
// `relaxed`, whose readings are not ordered.
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/timex.h>

#define WAYS 3
#define DURATION_NS 1500000000LL
#define DURATION_MAX_NS 30000000000LL
#define MET 1000

static int (*libc_gettime)(clockid_t, struct timespec *);

// Of the two bounds of a reading: the narrower one where nobody disciplines the clock, so that the kernel keeps its rate.
static int which;

// A reading, and how far it may be from the kernel's: asked on both sides, as in `excess`.
static long long by(int way, clockid_t id, long long *told) {
  struct timespec t = {0, 0};
  *told = 0;
  if (way == 0) {
    long long before = told_ns(id, which), reading = ours(id);
    *told = larger(before, told_ns(id, which)) + SPARE_NS;
    return reading;
  }
  if (way == 1) {
    libc_gettime(id, &t);
    return ns(t);
  }
  return kernel(id);
}

// A place of its own for each thread: with one for both it would read its own last store back.
static struct {
  long long reading[2]; // Nanoseconds times 4, plus the way.
  long long told[2];    // Of the last of the clock under test: it is stored first.
  long long worst[WAYS][WAYS]; // By how much more than it may a reading was earlier than the one handed over.
  long long met;
  char apart[128];
} side[2];

static int cpus[2], is_relaxed;

static int both_have_met(void) {
  return __atomic_load_n(&side[0].met, __ATOMIC_RELAXED) > MET && __atomic_load_n(&side[1].met, __ATOMIC_RELAXED) > MET;
}

static void hand_over_once(int me, clockid_t id, int way, long long *last) {
  long long handed = __atomic_load_n(&side[!me].reading[id], __ATOMIC_ACQUIRE);
  long long handed_told = __atomic_load_n(&side[!me].told[id], __ATOMIC_RELAXED), told;
  long long now = by(way, id, &told);
  int handed_way = handed & 3;
  if (handed && handed != *last) {
    *last = handed;
    __atomic_store_n(&side[me].met, side[me].met + 1, __ATOMIC_RELAXED);
    // Of one way nothing is allowed, but to an unordered reading what the processor reads it early by.
    long long allowed = handed_way != way && (handed_way == 0 || way == 0) ? handed_told + told : 0;
    if (is_relaxed && handed_way == 0 && way == 0) allowed = SPARE_NS;
    long long *worst = &side[me].worst[handed_way][way];
    *worst = larger(*worst, (handed >> 2) - now - allowed);
  }
  if (way == 0) __atomic_store_n(&side[me].told[id], told, __ATOMIC_RELAXED);
  __atomic_store_n(&side[me].reading[id], now * 4 + way, __ATOMIC_RELEASE);
}

static void *hand_over(void *argument) {
  int me = (int)(intptr_t)argument;
  unsigned random = 1 + (unsigned)me;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[me], &set);
  sched_setaffinity(0, sizeof set, &set);
  // On a busy machine the two may not run at once for a while.
  long long begin = kernel(CLOCK_MONOTONIC), last[2] = {0};
  while (kernel(CLOCK_MONOTONIC) < begin + DURATION_NS ||
         (!both_have_met() && kernel(CLOCK_MONOTONIC) < begin + DURATION_MAX_NS))
    for (int round = 0; round < 200; round++) {
      random = random * 1103515245 + 12345;
      hand_over_once(me, round & 1, (int)((random >> 16) % WAYS), &last[round & 1]);
    }
  return NULL;
}

int main(int count, char **arguments) {
  is_relaxed = count > 1 && !strcmp(arguments[1], "relaxed");
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  int found = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
    if (CPU_ISSET(cpu, &allowed)) cpus[found++] = cpu;
  if (found < 2) {
    puts("one processor");
    return 77;
  }
  libc_gettime = (int (*)(clockid_t, struct timespec *))dlsym(dlopen("libc.so.6", RTLD_NOW), "clock_gettime");
  struct timex state = {0};
  which = adjtimex(&state) == TIME_ERROR && state.offset == 0 ? 2 : 1;
  pthread_t thread;
  pthread_create(&thread, NULL, hand_over, (void *)1);
  hand_over(NULL);
  pthread_join(thread, NULL);
  static const char *const names[] = {"the clock", "libc", "the system call"};
  CHECK(both_have_met(), "the threads hardly met: %lld, %lld", side[0].met, side[1].met);
  for (int first = 0; first < WAYS; first++)
    for (int second = 0; second < WAYS; second++) {
      long long back = larger(side[0].worst[first][second], side[1].worst[first][second]);
      CHECK(back <= 0, "%s and then %s: back by %lld ns more than it may", names[first], names[second], back);
    }
  return finish();
}
