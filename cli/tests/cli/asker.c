/* Asks for the time as often as the words say, each from a function of its own: `mono N`, `real N`, `coarse N`, `day N`,
 * `second N`, `base N`, `step N` (the resolution), `odd N` (a clock that there is none of); in N threads one after the
 * other (`after N`) or at once (`at-once N`), in children (`fork N`), while a timer's signals ask too, as often as it then
 * prints (`storm N`); then what becomes of the process: `exec WORDS`, `die` (killed), `hang`, `linger` (until SIGTERM,
 * then ends with 3), `on` (the same, and asks once a millisecond), `leave` (ends with 7), `share` (a child of vfork asks
 * until its input ends; then ends with 5 if nothing has happened to it). */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What comes after keeps the call from being the function's last: a jump would have no place of its own. */
#define ASKS(name, call)                             \
  __attribute__((noinline)) void name(long n) {      \
    struct timespec t;                               \
    struct timeval v;                                \
    (void)t, (void)v;                                \
    for (long i = 0; i < n; i++) { call; }           \
    __asm__ volatile("");                            \
  }
ASKS(mono, clock_gettime(CLOCK_MONOTONIC, &t))
ASKS(real, clock_gettime(CLOCK_REALTIME, &t))
ASKS(coarse, clock_gettime(CLOCK_MONOTONIC_COARSE, &t))
ASKS(day, gettimeofday(&v, NULL))
ASKS(second, time(NULL))
ASKS(base, timespec_get(&t, TIME_UTC))
ASKS(step, clock_getres(CLOCK_BOOTTIME, &t))
ASKS(odd, clock_gettime(55, &t))

__attribute__((noinline)) void twice(long n) {
  mono(n);
  mono(n);
  __asm__ volatile("");
}

static pthread_barrier_t all;

static void *alone(void *n) {
  real(10 + (long)n);
  return NULL;
}

static void *together(void *n) {
  pthread_barrier_wait(&all);
  real(1000 + (long)n);
  pthread_barrier_wait(&all);
  return NULL;
}

static volatile long storms;

static void ask(int signal) {
  (void)signal;
  real(1);
  storms++;
}

static void end(int signal) {
  (void)signal;
  _exit(3);
}

int main(int words, char **word) {
  pthread_t threads[64];
  for (int i = 1; i < words; i++) {
    const char *what = word[i];
    long n = i + 1 < words ? atol(word[i + 1]) : 0;
    if (!strcmp(what, "exec")) {
      execvp(word[i + 1], word + i + 1);
      return 127;
    }
    if (!strcmp(what, "leave")) return 7;
    if (!strcmp(what, "die")) raise(SIGKILL);
    if (!strcmp(what, "share")) {
      int status = 1;
      pid_t child = vfork();
      if (child == 0) {
        if (write(1, "up\n", 3) != 3) _exit(1);
        struct pollfd end = {0, POLLIN, 0};
        for (n = 0; n < 20000 && poll(&end, 1, 1) == 0; n++) mono(1);
        _exit(5);
      }
      return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    if (!strcmp(what, "linger") || !strcmp(what, "on")) signal(SIGTERM, end);
    int asks_on = !strcmp(what, "on");
    if (asks_on || !strcmp(what, "linger") || !strcmp(what, "hang")) {
      puts("up"), fflush(stdout);
      for (; asks_on; usleep(1000)) mono(1);
      for (;;) pause();
    }
    i++;
    if (!strcmp(what, "mono")) mono(n);
    else if (!strcmp(what, "twice")) twice(n);
    else if (!strcmp(what, "real")) real(n);
    else if (!strcmp(what, "coarse")) coarse(n);
    else if (!strcmp(what, "day")) day(n);
    else if (!strcmp(what, "second")) second(n);
    else if (!strcmp(what, "base")) base(n);
    else if (!strcmp(what, "step")) step(n);
    else if (!strcmp(what, "odd")) odd(n);
    else if (!strcmp(what, "after"))
      for (long t = 0; t < n; t++) pthread_create(&threads[0], NULL, alone, (void *)t), pthread_join(threads[0], NULL);
    else if (!strcmp(what, "at-once")) {
      pthread_barrier_init(&all, NULL, n);
      for (long t = 0; t < n; t++) pthread_create(&threads[t], NULL, together, (void *)t);
      for (long t = 0; t < n; t++) pthread_join(threads[t], NULL);
    } else if (!strcmp(what, "storm")) {
      struct itimerval often = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
      signal(SIGALRM, ask);
      setitimer(ITIMER_REAL, &often, NULL);
      mono(n);
      setitimer(ITIMER_REAL, &never, NULL);
      signal(SIGALRM, SIG_IGN);
      printf("%ld\n", storms);
    } else if (!strcmp(what, "fork"))
      for (long c = 0; c < n; c++) {
        if (fork() == 0) {
          mono(100 + c);
          _exit(0);
        }
        wait(NULL);
      }
    else return 2;
  }
  return 0;
}
