// Asks for the time without end on so many threads, and counts in a shared file how often it has, thread by thread. Whoever
// holds that file has it pause, where the counts stand still and are exact, and gives it other work.
// With a third argument it has itself killed for each of these system calls first.
// usage: load FILE THREADS [filtered]
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION static __attribute__((noinline, noclone))
#define END __asm__ volatile("")

enum { RUN, IDLE, FAULT, ORDER, DONE, FIRST = 8, PER_THREAD = 8, WORDS = 512 };
enum { NOTHING, CHILD, THREADS, EXEC, EXIT };
static volatile uint64_t *words;
static int is_filtered;

FUNCTION long long monotonic(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  END;
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
FUNCTION void cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); // The vDSO hands it on to the kernel.
  END;
}
FUNCTION void microseconds(void) {
  struct timeval t;
  gettimeofday(&t, 0);
  END;
}
FUNCTION void seconds(void) {
  time(0);
  END;
}
FUNCTION void resolution(void) {
  struct timespec t;
  clock_getres(CLOCK_MONOTONIC, &t);
  END;
}
FUNCTION void raw(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &t);
  END;
}

static void *load(void *which) {
  volatile uint64_t *counts = words + FIRST + PER_THREAD * (intptr_t)which;
  long long last = 0;
  for (;;) {
    if (!words[RUN]) {
      __sync_add_and_fetch(&words[IDLE], 1);
      while (!words[RUN]) usleep(500);
      __sync_sub_and_fetch(&words[IDLE], 1);
    }
    for (int i = 0; i < 5; i++) {
      long long now = monotonic();
      counts[0]++;
      if (now < last) words[FAULT]++;
      last = now;
    }
    if (!is_filtered) cpu(), counts[1]++;
    microseconds(), counts[2]++;
    seconds(), counts[3]++;
    resolution(), counts[4]++;
    if (!is_filtered) raw();
    counts[5]++;
    usleep(200);
  }
  return 0;
}

// It waits for nothing, and nothing is to wake it up.
static void *waits(void *p) {
  struct epoll_event event;
  epoll_wait(epoll_create1(0), &event, 1, -1);
  words[FAULT]++;
  return p;
}

static int filter(void) {
#define KILL(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
  struct sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), KILL(clock_gettime), KILL(clock_getres),
    KILL(gettimeofday),
#ifdef SYS_time
    KILL(time),
#endif
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

FUNCTION void *brief(void *p) {
  for (int i = 0; i < 10; i++) monotonic();
  return p;
}

static void work(uint64_t order, char *self) {
  if (order == CHILD && fork() == 0) {
    for (int i = 0; i < 50; i++) monotonic();
    _exit(0);
  }
  if (order == CHILD) wait(0);
  if (order == THREADS) {
    pthread_t threads[20];
    for (int i = 0; i < 20; i++) pthread_create(&threads[i], 0, brief, 0);
    for (int i = 0; i < 20; i++) pthread_join(threads[i], 0);
  }
  if (order == EXEC) execl(self, self, (char *)0);
  if (order == EXIT) _exit(0);
}

int main(int arguments, char **argument) {
  if (arguments < 3) {
    for (;;) pause();
  }
  int file = open(argument[1], O_RDWR);
  words = mmap(0, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (words == MAP_FAILED) return 1;
  is_filtered = arguments > 3;
  if (is_filtered && filter()) return 1;
  pthread_t waiting;
  if (pthread_create(&waiting, 0, waits, 0)) return 1;
  for (intptr_t i = 0; i < atoi(argument[2]); i++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, load, (void *)i)) return 1;
  }
  for (;;) {
    uint64_t order = words[ORDER];
    if (order != words[DONE]) {
      work(order & 0xff, argument[0]);
      words[DONE] = order;
    }
    usleep(500);
  }
}
