// Threads that read all clocks while signals make their handlers read them too, on small stacks beside a forbidden
// page, and the profiler's timer at 1 kHz. No clock call may allocate, and none may be earlier than the one that its
// handler interrupted.
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#define THREADS 3
#define HANDLED 1500
#define STACK 16384

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
static __thread volatile int in_clock;
static __thread volatile long long last[COUNT(FOLLOWED)];
static volatile int allocations, stop;
static volatile long handled;

void *malloc(size_t size) {
  if (in_clock) allocations++;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  if (in_clock) allocations++;
  return __libc_calloc(count, size);
}

// Called by the threads and by the handlers that interrupt them, within a clock call or between two.
static void read_all(void) {
  struct timespec t;
  struct timeval v;
  for (size_t i = 0; i < COUNT(FOLLOWED); i++) {
    long long seen = last[i];
    in_clock++;
    int result = clock_gettime(FOLLOWED[i], &t);
    in_clock--;
    if (result || ns(t) < seen) __sync_fetch_and_add(&failures, 1);
    if (ns(t) > last[i]) last[i] = ns(t);
  }
  in_clock++;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  gettimeofday(&v, NULL);
  time(NULL);
  in_clock--;
}

static void handler(int number) {
  (void)number;
  int before = errno;
  read_all();
  if (errno != before) __sync_fetch_and_add(&failures, 1);
  __sync_fetch_and_add(&handled, 1);
}

static void *work(void *argument) {
  size_t length = STACK + 4096;
  char *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(map, 4096, PROT_NONE);
  stack_t stack = {.ss_sp = map + 4096, .ss_size = STACK};
  sigaltstack(&stack, NULL);
  while (!stop) read_all();
  return argument;
}

int main(void) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGPROF, &action, NULL);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
  struct itimerspec kilohertz = {{0, 1000000}, {0, 1000000}};
  timer_t timer;
  // By the wall: the timer that counts CPU time is as coarse as the kernel's tick.
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &kilohertz, NULL)) return 77;
  // A signal that is not yet taken is merged with the next: what counts is how often handlers ran.
  for (int i = 0; handled < HANDLED; i++) pthread_kill(threads[i % THREADS], SIGUSR1);
  timer_delete(timer);
  stop = 1;
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK(failures == 0, "a reading was earlier than one before it, or failed, or touched errno: %d times", failures);
  CHECK(allocations == 0, "%d allocations within clock calls", allocations);
  check_all("after the storm");
  return finish();
}
