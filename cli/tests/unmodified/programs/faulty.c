// What an image may get wrong, one fault for each macro, and without a macro nothing but that each call is a system call:
// with it the tests see that they would notice. Nothing but `faults.rs` uses it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static long long kernel(clockid_t id) {
  struct timespec t = {0, 0};
  syscall(SYS_clock_gettime, id, &t);
  return t.tv_sec * SECOND_NS + t.tv_nsec;
}

static inline int give(struct timespec *t, long long nanos) {
  t->tv_sec = nanos / SECOND_NS;
  t->tv_nsec = nanos % SECOND_NS;
  return 0;
}

static inline int is_fine(clockid_t id) {
  return id == CLOCK_REALTIME || id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW || id == CLOCK_BOOTTIME;
}

#ifdef LATE
static int is_ready;
__attribute__((constructor)) static void ready(void) { is_ready = 1; }
#endif

#ifdef HELPER_THREAD
static void *help(void *argument) {
  for (;;) sleep(1);
  return argument;
}
__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, help, NULL);
}
#endif

#ifdef LEAVES_A_FILE
__attribute__((constructor)) static void leave(void) { close(open("/dev/shm/left", O_CREAT | O_WRONLY, 0600)); }
#endif

int clock_gettime(clockid_t id, struct timespec *t) {
#if defined(LATE)
  if (!is_ready) return give(t, 0);
#elif defined(LOCKS)
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  int result = (int)syscall(SYS_clock_gettime, id, t);
  pthread_mutex_unlock(&mutex);
  return result;
#elif defined(ALLOCATES)
  void *volatile block = malloc(16);
  free(block);
#elif defined(TOUCHES_ERRNO)
  errno = EAGAIN;
#elif defined(REFUSES_IDS)
  if (id < 0 || id > CLOCK_TAI) {
    errno = EINVAL;
    return -1;
  }
#elif defined(BEHIND)
  if (is_fine(id)) return give(t, kernel(id) - 3000000);
#elif defined(AHEAD)
  if (is_fine(id)) return give(t, kernel(id) + 50000);
#elif defined(OTHER_EPOCH)
  if (id == CLOCK_MONOTONIC) return give(t, kernel(CLOCK_REALTIME));
#elif defined(DRIFTS) || defined(KEEPS_OFFSETS)
  // Counted from the start by another clock: at its own rate, and with the offsets of the start.
  static long long zero[16], start[16];
  if (is_fine(id) && start[id] == 0) {
    zero[id] = kernel(CLOCK_REALTIME);
    start[id] = kernel(id);
  }
  if (is_fine(id)) {
    long long passed = kernel(CLOCK_REALTIME) - zero[id];
#ifdef DRIFTS
    passed -= passed / 10000;
#endif
    return give(t, start[id] + passed);
  }
#elif defined(SKEWED)
  if (is_fine(id)) {
    long long now = kernel(id);
    return give(t, now - 2000 * sched_getcpu());
  }
#elif defined(THREAD_LOCAL)
  static __thread volatile int calls;
  calls++;
#endif
  // Where the vDSO would answer, a pointer to nowhere is the caller's end; the kernel refuses it.
#ifndef ANSWERS_EFAULT
  if (id >= 0 && id != CLOCK_PROCESS_CPUTIME_ID && id != CLOCK_THREAD_CPUTIME_ID) {
    struct timespec now;
    if (syscall(SYS_clock_gettime, id, &now)) return -1;
    *t = now;
    return 0;
  }
#endif
  return (int)syscall(SYS_clock_gettime, id, t);
}

int gettimeofday(struct timeval *restrict v, void *restrict zone) {
  struct timespec t;
  if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
  struct timeval *volatile place = v; // Null is allowed, whatever the header says.
  if (place) *place = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
#ifdef KEEPS_ZONE
  (void)zone;
#else
  if (zone) memset(zone, 0, sizeof(struct timezone));
#endif
  return 0;
}

time_t time(time_t *place) {
#ifdef EARLY_SECONDS
  // As the second of a fine clock is before the kernel's next tick.
  time_t second = (kernel(CLOCK_REALTIME) + 25000000) / SECOND_NS;
#else
  time_t second = kernel(CLOCK_REALTIME_COARSE) / SECOND_NS;
#endif
  if (place) *place = second;
  return second;
}
