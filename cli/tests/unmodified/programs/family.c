// A threaded program that hammers the clocks and has children: by fork, by vfork, by posix_spawn, and one that lives on.
// Each child's clocks are compared with the kernel's at once; a copied lock or a copied refresh would hang it.
#include "check.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

#define THREADS 2
#define FORKS 100
#define OTHERS 25

extern char **environ;
static volatile int stop;

static void *hammer(void *argument) {
  struct timespec t;
  struct timeval v;
  while (!stop) {
    for (size_t i = 0; i < COUNT(FOLLOWED); i++) clock_gettime(FOLLOWED[i], &t);
    gettimeofday(&v, NULL);
    time(NULL);
  }
  return argument;
}

static void ends_well(pid_t child, const char *what) {
  int status = -1;
  CHECK(child > 0, "%s: %s", what, strerror(errno));
  waitpid(child, &status, 0);
  CHECK(status == 0, "%s ended with status %x", what, status);
}

static void fork_once(int generation) {
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    failures = 0;
    for (int round = 0; round < 5; round++) check_all("a forked child");
    check_for("a forked child, later", 2000000);
    if (generation > 0) fork_once(generation - 1);
    _exit(failures != 0);
  }
  ends_well(child, "a forked child");
}

// A child in its parent's memory: its reading may be a refresh, which must be as good as the parent's own.
static void vfork_once(void) {
  pid_t child = vfork();
  if (child == 0) {
    struct timespec t;
    long long before = kernel(CLOCK_MONOTONIC);
    int result = clock_gettime(CLOCK_MONOTONIC, &t);
    long long after = kernel(CLOCK_MONOTONIC);
    time(NULL);
    _exit(result || ns(t) < before - CLAIM_MAX_NS || ns(t) > after + CLAIM_MAX_NS);
  }
  ends_well(child, "a vfork child");
  check_all("after vfork");
}

static void spawn_once(char *self) {
  pid_t child = -1;
  char *arguments[] = {self, "child", NULL};
  int result = posix_spawn(&child, self, NULL, NULL, arguments, environ);
  CHECK(result == 0, "posix_spawn: %s", strerror(result));
  ends_well(child, "a spawned child");
  check_all("after posix_spawn");
}

int main(int count, char **arguments) {
  if (count > 1 && !strcmp(arguments[1], "child")) {
    check_for("a spawned child", 2000000);
    return failures != 0;
  }
  if (count > 1 && !strcmp(arguments[1], "forever")) hammer(NULL); // Until it is killed.
  int is_short = count > 1 && !strcmp(arguments[1], "short");
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, hammer, NULL);
  pid_t long_lived = fork();
  if (long_lived == 0) {
    alarm(40);
    for (int round = 0; round < (is_short ? 1 : 20); round++) {
      check_for("a long-lived child", 5000000);
      usleep(50000);
    }
    _exit(failures != 0);
  }
  for (int i = 0; i < (is_short ? FORKS / 5 : FORKS); i++) fork_once(i % 10 == 0);
  for (int i = 0; i < (is_short ? OTHERS / 5 : OTHERS); i++) {
    vfork_once();
    spawn_once(arguments[0]);
  }
  ends_well(long_lived, "the long-lived child");
  stop = 1;
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  return finish();
}
