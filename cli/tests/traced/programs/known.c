// Asks for the time a known number of times, each from a function of its own name. What the tests expect stands in
// counts.rs. With an argument it becomes itself without one at the end, once.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION static __attribute__((noinline, noclone))
#define END __asm__ volatile("") // No call is the last thing that a function does: it would become a jump.

FUNCTION void monotonic(int n) {
  struct timespec t;
  while (n--) clock_gettime(CLOCK_MONOTONIC, &t);
  END;
}
FUNCTION void cpu(int n) {
  struct timespec t;
  while (n--) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  END;
}
FUNCTION void microseconds(int n) {
  struct timeval t;
  while (n--) gettimeofday(&t, 0);
  END;
}
FUNCTION void seconds(int n) {
  while (n--) time(0);
  END;
}
FUNCTION void resolution(int n) {
  struct timespec t;
  while (n--) clock_getres(CLOCK_REALTIME, &t);
  END;
}
FUNCTION void raw(int n) {
  struct timespec t;
  while (n--) syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &t);
  END;
}
FUNCTION void *in_a_thread(void *n) {
  monotonic(*(int *)n);
  return n;
}
FUNCTION void in_a_child(int n) {
  microseconds(n);
  END;
}

int main(int arguments, char **argument) {
  monotonic(1000);
  cpu(20);
  microseconds(310);
  seconds(7);
  resolution(5);
  raw(11);
  pthread_t threads[3];
  int n = 100;
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, in_a_thread, &n);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  if (fork() == 0) {
    in_a_child(50);
    _exit(0);
  }
  wait(0);
  if (arguments > 1) execl(argument[0], argument[0], (char *)0);
  return 3;
}
